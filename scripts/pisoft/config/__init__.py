"""Configuration: run file, catalogue, studies, validation, job settings.

The only reader of YAML, independent of the other packages; callers pass in the method look-up.
"""
