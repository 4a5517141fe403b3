"""What the rules need of the configuration: parameters, inputs, options and limits of jobs.

Methods that take Snakemake's `wildcards`, `input` and `output` are input or params functions.
"""
