"""Configuration: run file, catalogue, studies, validation, generated schema, settings of jobs.

The only reader of YAML. It knows none of the other rooms; methods are looked up by a function that
its callers pass in.
"""
