"""Parameters, inputs, options and limits of jobs, which the rules take from the configuration.

Methods that take Snakemake's `wildcards`, `input` and `output` are input or params functions.
"""
