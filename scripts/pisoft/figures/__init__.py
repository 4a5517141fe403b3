"""One file for each figure, named after what it makes.

`scripts/plot_results.py` calls `NAME.plot(…)`, which `display` decorates, and writes what that
returns as PDF, SVG and PNG.
"""
