"""One file for each figure, named after what it makes.

`scripts/plot_results.py NAME` calls `NAME.plot(…)` and writes what it returns as PDF, SVG and PNG.
"""
