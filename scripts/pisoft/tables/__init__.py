"""One file for each table, named after what it makes.

`scripts/tabulate_results.py NAME` calls `NAME.table(…)` and writes what that returns: CSV, LaTeX,
HTML.
"""
