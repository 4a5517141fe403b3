"""Tables, one file each.

`scripts/tabulate_results.py` calls the decorated `NAME.table(…)` and writes its result as CSV,
LaTeX and HTML.
"""
