"""Configuration: run file, catalogue, studies, validation, settings of jobs.

The only reader of YAML, independent of the other packages; callers pass the look-up of methods in.
"""
