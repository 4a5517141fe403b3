"""Heatmaps of how far methods agree on which tokens matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.displays import display
from pisoft.figures.heatmap import (
    CELL,
    SMALLEST_PANEL,
    TAU,
    TAU_MEANING,
    TITLE,
    Look,
    add_scale,
    draw_numbers,
    mark_gaps,
    name_cells,
)
from pisoft.figures.style import theme
from pisoft.statistics.agreement_means import triangle, with_average
from pisoft.statistics.metrics import AVERAGE
from pisoft.views import View

PANELS_ABREAST = 2


NAMES = 1.6  # of methods, beside or below a panel


SCALE = 0.15


OVERLAP: Look = ("Purples", 0.0, 1.0)


OVERLAP_MEANING = "overlap of top 10 %\n(1: same tokens, about 0.1: unrelated)"


@display(
    title="Do methods agree on tokens?",
    by=("model",),
    reads={"agreement": "summary/agreement/{model}/{dataset}"},
    cells="compared",
    numbers=True,
)
def plot(view: View) -> tuple[Figure, pd.DataFrame]:
    """Draw the figure of one model, and return its numbers."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = with_average(files.rows("agreement", **cell), settings.datasets)
    methods, where = settings.methods_on(cell["model"]), settings.where(cell)
    return plot_method_agreement(rows, methods, settings.datasets, where), rows


def plot_method_agreement(
    rows: pd.DataFrame, methods: Mapping[str, str], datasets: Mapping[str, str], where: str
) -> Figure:
    """Draw how far methods agree: Kendall's τ below the diagonal, top-10 % overlap above it.

    The first panel shows the means over datasets; a dash stands where there is no value.

    Args:
        rows: rows of kind `agreement` of one model, with averages.
        methods: label of each method, in the order of lines and columns.
        datasets: label of each dataset, in the order of the panels.
        where: model, for the title.
    """
    titles = {AVERAGE: "Mean over datasets", **datasets}
    names, side = list(methods.values()), max(SMALLEST_PANEL, CELL * len(methods))
    lines = -(-len(titles) // PANELS_ABREAST)
    gap = lines * PANELS_ABREAST - len(titles)  # beside the means, so that columns end alike
    heights = (*(side + TITLE for _ in range(lines)), SCALE)
    with theme():
        figure = Figure(
            figsize=(PANELS_ABREAST * side + NAMES, sum(heights) + NAMES + 1), layout="constrained"
        )
        grid = figure.add_gridspec(1 + lines, PANELS_ABREAST, height_ratios=heights)
        for number, (dataset, title) in enumerate(titles.items()):
            line, column = divmod(number + (gap if number else 0), PANELS_ABREAST)
            panel = figure.add_subplot(grid[line, column])
            chosen = rows[rows["dataset"] == dataset]
            _draw_halves(panel, chosen, list(methods))
            name_cells(
                panel,
                columns=names if line == lines - 1 else [],
                lines=names if column == 0 else [],
            )
            panel.set_title(f"{title} · {_sample_text(chosen)}", fontsize="medium")
        figure.suptitle(f"Agreement of methods on tokens · {where}", fontsize="medium")
        add_scale(figure.add_subplot(grid[lines, 0]), TAU, f"Below the diagonal: {TAU_MEANING}")
        add_scale(figure.add_subplot(grid[lines, 1]), OVERLAP, f"Above it: {OVERLAP_MEANING}")
    return figure


def _draw_halves(panel: Axes, rows: pd.DataFrame, methods: Sequence[str]) -> None:
    """Fill one dataset's panel of method agreement."""
    below = triangle(rows, "kendall_tau", methods)
    above = triangle(rows, "top_overlap", methods).T
    draw_numbers(panel, below, TAU)
    draw_numbers(panel, above, OVERLAP)
    mark_gaps(panel, np.isnan(below) & np.isnan(above))


def _sample_text(rows: pd.DataFrame) -> str:
    """Return `n = 98`, or a range over the pairs where they differ."""
    fewest, most = rows["n"].min(), rows["n"].max()
    return f"n = {most}" if fewest == most else f"n = {fewest}\N{EN DASH}{most}"
