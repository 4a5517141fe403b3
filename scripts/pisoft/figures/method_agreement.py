"""Heatmaps of the agreement of methods on token importance."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pisoft.figures import panels
from pisoft.figures.style import FULL_WIDTH, page_width, theme, width
from pisoft.statistics.method_agreement import METRICS, with_averages
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.results import select
from pisoft.views.view import View, display

NAMES, CELL, NUMBER = 1.6, 0.22, 0.19  # inches: of names, and wide enough for a cell, a number
OVERLAP_MEANING = "overlap of top 10 %\n(1: same tokens, about 0.1: unrelated)"


@display(
    title="Do methods agree on tokens?",
    by=("model",),
    reads=("method_agreement",),
    cells="compared",
    numbers=True,
)
@page_width(FULL_WIDTH)  # in fewer millimetres, names and numbers have no room
def plot(view: View) -> tuple[Figure, pd.DataFrame]:
    """Draw Kendall's τ below the diagonal and the top-10 % overlap above it, and return both."""
    results = view.results("method_agreement")
    rows, methods = with_averages(results.rows), results.methods
    several = len(results.datasets) > 1
    titles = {AVERAGE: "Mean over datasets"} if several else {}
    titles |= results.datasets
    room, lines = (width() - NAMES) / (1 + several), -(-len(titles) // 2)
    side = min(room, max(1.8, CELL * len(methods)))
    numbers = side >= NUMBER * len(methods)
    gap = 2 * lines - len(titles)  # beside the means, so that columns end alike
    heights = (*[side + 0.3] * lines, 0.15)
    with theme():
        figure = Figure(figsize=(width(), sum(heights) + 1.9), layout="constrained")
        grid = figure.add_gridspec(1 + lines, 2, height_ratios=heights)
        for index, (dataset, title) in enumerate(titles.items()):
            line, column = divmod(index + (gap if index else 0), 2)
            panel = figure.add_subplot(grid[line, column] if several else grid[0, :])
            dataset_rows = select(rows, dataset=dataset)
            tau, overlap = (
                panels.lower_triangle(select(dataset_rows, metric=m), [*methods]) for m in METRICS
            )
            panels.heatmap(panel, tau, panels.TAU, numbers)
            panels.heatmap(panel, overlap.T, panels.OVERLAP, numbers)
            gaps = np.isnan(tau) & np.isnan(overlap.T)
            panels.mark_gaps(panel, gaps & ~np.eye(len(gaps), dtype=bool))
            names = list(methods.values())
            panels.name_cells(panel, names if line == lines - 1 else [], [] if column else names)
            panel.set_title(f"{title} · {panels.n_text(dataset_rows)}", fontsize="medium")
        taus = select(rows, metric=METRICS[0], dataset=next(iter(titles)))["value"]
        figure.suptitle(
            panels.heading(view, message=panels.median_tau("Methods rank tokens", taus))
        )
        panels.add_scale(
            figure.add_subplot(grid[lines, 0]),
            panels.TAU,
            f"Below the diagonal: {panels.TAU_MEANING}",
        )
        panels.add_scale(
            figure.add_subplot(grid[lines, 1]), panels.OVERLAP, f"Above it: {OVERLAP_MEANING}"
        )
    return figure, rows
