"""Figures, one file each.

`scripts/plot_results.py` calls the decorated `NAME.plot(…)` and writes its result as PDF, SVG and
PNG.
"""
