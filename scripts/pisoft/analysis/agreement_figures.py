"""Heatmaps of agreement: between methods on tokens, and between metrics on methods."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from pisoft.analysis.agreement_means import triangle, with_average
from pisoft.analysis.metric_agreement import (
    OrderingMetric,
    agreement_matrix,
    metric_agreement,
    ordering_metrics,
)
from pisoft.analysis.style import theme
from pisoft.analysis.tables import AVERAGE, NOTHING

PANELS_ABREAST = 2
SMALL_PANELS_ABREAST = 5
# Inches.
CELL = 0.3  # two digits fit
SMALLEST_PANEL = 2.4
SMALL_PANEL = 1.8  # without numbers
NAMES = 1.6  # of methods, beside or below a panel
LONG_NAMES = 3.2  # of metrics
TITLE = 0.3
SCALE = 0.15
TITLE_CHARACTERS = 70
NUMBERS: dict[str, Any] = {"size": 6.5}
Look = tuple[str, float, float]  # a colour map that any colour vision can read, and its range
TAU: Look = ("RdBu", -1.0, 1.0)  # blue agrees
OVERLAP: Look = ("Purples", 0.0, 1.0)
TAU_MEANING = "Kendall's τ-b\n(1: same order, 0: unrelated, −1: opposite)"
OVERLAP_MEANING = "overlap of top 10 %\n(1: same tokens, about 0.1: unrelated)"


def plot_method_agreement(
    agreement: pd.DataFrame, methods: Mapping[str, str], datasets: Mapping[str, str], where: str
) -> Figure:
    """Draw how far methods agree: Kendall's τ below the diagonal, top-10 % overlap above it.

    The first panel shows the means over datasets; a dash stands where there is no value.

    Args:
        agreement: rows of kind `agreement` of one model.
        methods: label of each method, in the order of lines and columns.
        datasets: label of each dataset, in the order of the panels.
        where: model, for the title.
    """
    rows = with_average(agreement, datasets)
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
            _name_cells(
                panel,
                columns=names if line == lines - 1 else [],
                lines=names if column == 0 else [],
            )
            panel.set_title(f"{title} · {_sample_text(chosen)}", fontsize="medium")
        figure.suptitle(f"Agreement of methods on tokens · {where}", fontsize="medium")
        _add_scale(figure.add_subplot(grid[lines, 0]), TAU, f"Below the diagonal: {TAU_MEANING}")
        _add_scale(figure.add_subplot(grid[lines, 1]), OVERLAP, f"Above it: {OVERLAP_MEANING}")
    return figure


def plot_metric_agreement(
    statistics: pd.DataFrame, datasets: Mapping[str, str], where: str
) -> Figure:
    """Draw how far metrics agree on which method is better: for the mean over datasets, and each.

    A dash, or a blank cell in the small panels, stands where there is no value. Metrics without any
    value are left out and named.

    Args:
        statistics: rows of kind `statistics` of one model.
        datasets: label of each dataset, in the order of the small panels.
        where: model, for the title.
    """
    metrics, left_out = ordering_metrics(statistics)
    rows = metric_agreement(statistics, metrics, datasets)
    side = max(SMALLEST_PANEL, CELL * len(metrics))
    abreast = min(SMALL_PANELS_ABREAST, len(datasets))
    lines = -(-len(datasets) // abreast)
    heights = (side + TITLE + 0.5, lines * SMALL_PANEL, 1.0)
    with theme():
        figure = Figure(figsize=(side + LONG_NAMES, sum(heights)), layout="constrained")
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        top, middle, bottom = (figure.add_subfigure(grid[line]) for line in range(3))
        _draw_average(top.subplots(), agreement_matrix(rows, metrics, AVERAGE), metrics)
        panels = middle.subplots(lines, abreast, squeeze=False).ravel()
        for panel, (dataset, title) in zip(panels, datasets.items(), strict=False):
            _draw_cells(panel, agreement_matrix(rows, metrics, dataset), TAU)
            panel.set_title(title, fontsize="small")
        for panel in panels[len(datasets) :]:
            panel.set_axis_off()
        title = f"Agreement of metrics on methods · {where} · {_method_count(rows)}"
        figure.suptitle(f"{title}{_left_out_text(left_out)}", fontsize="medium")
        _add_scale(bottom.add_axes((0.3, 0.75, 0.4, 0.15)), TAU, TAU_MEANING)
    return figure


def _draw_halves(panel: Axes, rows: pd.DataFrame, methods: Sequence[str]) -> None:
    """Fill one dataset's panel of method agreement."""
    below = triangle(rows, "kendall_tau", methods)
    above = triangle(rows, "top_overlap", methods).T
    _draw_numbers(panel, below, TAU)
    _draw_numbers(panel, above, OVERLAP)
    _mark_gaps(panel, np.isnan(below) & np.isnan(above))


def _draw_average(panel: Axes, matrix: np.ndarray, metrics: Sequence[OrderingMetric]) -> None:
    """Fill the large panel of metric agreement; columns have the numbers of the lines."""
    _draw_numbers(panel, matrix, TAU)
    _mark_gaps(panel, np.isnan(matrix) & np.tri(len(metrics), k=-1, dtype=bool))
    numbers = [str(number) for number in range(1, 1 + len(metrics))]
    names = (metric.label for metric in metrics)
    lines = [f"{name}  {number}" for name, number in zip(names, numbers, strict=True)]
    _name_cells(panel, columns=numbers, lines=lines)
    panel.tick_params(axis="x", rotation=0)
    panel.set_title("Mean over datasets", fontsize="small")


def _draw_numbers(panel: Axes, matrix: np.ndarray, look: Look) -> None:
    """Colour the cells that have a value, and write it into them."""
    _draw_cells(panel, matrix, look, annot=_texts(matrix), fmt="", annot_kws=NUMBERS)


def _draw_cells(panel: Axes, matrix: np.ndarray, look: Look, **numbers: Any) -> None:
    """Colour the cells that have a value; `numbers` is how seaborn writes into them."""
    colours, lowest, highest = look
    seaborn.heatmap(
        matrix,
        ax=panel,
        cmap=colours,
        vmin=lowest,
        vmax=highest,
        square=True,
        cbar=False,
        linewidths=0.5,
        xticklabels=[],
        yticklabels=[],
        **numbers,
    )
    panel.grid(visible=False)


def _texts(matrix: np.ndarray) -> np.ndarray:
    """Return numbers of at most 1 in size as short texts: `.53`, `−.07`, `1.0`."""
    rounded = np.round(matrix, 2) + 0.0  # no negative zero
    texts = [f"{value:.2f}".replace("1.00", "1.0").replace("0.", ".") for value in rounded.ravel()]
    signed = [text.replace("-", "\N{MINUS SIGN}") for text in texts]
    return np.array(signed, dtype=object).reshape(matrix.shape)


def _mark_gaps(panel: Axes, gaps: np.ndarray) -> None:
    """Write a dash into the cells that lack a value, the diagonal left out."""
    for line, column in np.argwhere(gaps & ~np.eye(len(gaps), dtype=bool)):
        panel.text(column + 0.5, line + 0.5, NOTHING, ha="center", va="center", **NUMBERS)


def _name_cells(panel: Axes, columns: list[str], lines: list[str]) -> None:
    panel.set_anchor("W")  # the layout leaves room for names left of the space that it divides
    panel.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=90, fontsize="small")
    panel.set_yticks(np.arange(len(lines)) + 0.5, lines, rotation=0, fontsize="small")


def _add_scale(panel: Axes, look: Look, label: str) -> None:
    """Fill a panel with a colour map's scale."""
    colours, lowest, highest = look
    mappable = ScalarMappable(Normalize(lowest, highest), colours)
    assert panel.figure is not None
    scale = panel.figure.colorbar(mappable, cax=panel, orientation="horizontal")
    scale.set_label(label, fontsize="small")
    scale.set_ticks(np.linspace(lowest, highest, 5).tolist())
    scale.ax.tick_params(labelsize="small")


def _sample_text(rows: pd.DataFrame) -> str:
    """Return `n = 98`, or a range over the pairs where they differ."""
    fewest, most = rows["n"].min(), rows["n"].max()
    return f"n = {most}" if fewest == most else f"n = {fewest}\N{EN DASH}{most}"


def _method_count(rows: pd.DataFrame) -> str:
    """Return how many methods the metrics put in an order."""
    return f"{0 if rows.empty else rows['n_methods'].max()} methods"


def _left_out_text(metrics: Sequence[OrderingMetric]) -> str:
    """Name the metrics that are left out, on lines of their own."""
    if not metrics:
        return ""
    names = "; ".join(metric.label for metric in metrics)
    return "\n" + textwrap.fill(f"without values: {names}", TITLE_CHARACTERS)
