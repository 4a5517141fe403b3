"""What the rules need of the configuration: parameters, inputs, options and limits of jobs.

Snakemake's `wildcards`, `input` and `output` are passed as they are; methods that take them are
input or params functions of rules.
"""
