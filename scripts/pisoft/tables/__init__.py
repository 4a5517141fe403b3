"""One file for each table, named after what it makes.

`scripts/tabulate_results.py` calls `NAME.table(…)`, which `display` decorates, and writes what that
returns: CSV, LaTeX, HTML.
"""
