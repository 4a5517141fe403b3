"""Heatmaps of how far metrics agree on which methods are better."""

from __future__ import annotations

import textwrap
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
    add_scale,
    draw_cells,
    draw_numbers,
    mark_gaps,
    name_cells,
)
from pisoft.figures.style import theme
from pisoft.statistics.metric_agreement import (
    OrderingMetric,
    agreement_matrix,
    metric_agreement,
    ordering_metrics,
)
from pisoft.statistics.metrics import AVERAGE
from pisoft.views import View

SMALL_PANELS_ABREAST = 5


SMALL_PANEL = 1.8  # without numbers


LONG_NAMES = 3.2  # of metrics


TITLE_CHARACTERS = 70


@display(
    title="Do metrics agree on methods?",
    by=("model",),
    reads={"statistics": "summary/statistics"},
    numbers=True,
)
def plot(view: View) -> tuple[Figure, pd.DataFrame]:
    """Draw the figure of one model, and return its numbers."""
    files, settings, cell = view.files, view.settings, view.cell
    statistics = files.rows("statistics", **cell)
    on_model = settings.methods_on(cell["model"])  # not those of selected depths
    statistics = statistics[statistics["method"].isin(on_model)]
    metrics, left_out = ordering_metrics(statistics)
    rows = metric_agreement(statistics, metrics, settings.datasets)
    where = settings.where(cell)
    return plot_metric_agreement(rows, metrics, left_out, settings.datasets, where), rows


def plot_metric_agreement(
    rows: pd.DataFrame,
    metrics: Sequence[OrderingMetric],
    left_out: Sequence[OrderingMetric],
    datasets: Mapping[str, str],
    where: str,
) -> Figure:
    """Draw how far metrics agree on which method is better: for the mean over datasets, and each.

    A dash, or a blank cell in the small panels, stands where there is no value. Metrics without any
    value are left out and named.

    Args:
        rows: τ by dataset and two metrics, averages included; see :func:`metric_agreement`.
        metrics: those that have values, in the order of lines and columns.
        left_out: those that have none.
        datasets: label of each dataset, in the order of the small panels.
        where: model, for the title.
    """
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
            draw_cells(panel, agreement_matrix(rows, metrics, dataset), TAU)
            panel.set_title(title, fontsize="small")
        for panel in panels[len(datasets) :]:
            panel.set_axis_off()
        title = f"Agreement of metrics on methods · {where} · {_method_count(rows)}"
        figure.suptitle(f"{title}{_left_out_text(left_out)}", fontsize="medium")
        add_scale(bottom.add_axes((0.3, 0.75, 0.4, 0.15)), TAU, TAU_MEANING)
    return figure


def _draw_average(panel: Axes, matrix: np.ndarray, metrics: Sequence[OrderingMetric]) -> None:
    """Fill the large panel of metric agreement; columns have the numbers of the lines."""
    draw_numbers(panel, matrix, TAU)
    mark_gaps(panel, np.isnan(matrix) & np.tri(len(metrics), k=-1, dtype=bool))
    numbers = [str(number) for number in range(1, 1 + len(metrics))]
    names = (metric.label for metric in metrics)
    lines = [f"{name}  {number}" for name, number in zip(names, numbers, strict=True)]
    name_cells(panel, columns=numbers, lines=lines)
    panel.tick_params(axis="x", rotation=0)
    panel.set_title("Mean over datasets", fontsize="small")


def _method_count(rows: pd.DataFrame) -> str:
    """Return how many methods the metrics put in an order."""
    return f"{0 if rows.empty else rows['n_methods'].max()} methods"


def _left_out_text(metrics: Sequence[OrderingMetric]) -> str:
    """Name the metrics that are left out, on lines of their own."""
    if not metrics:
        return ""
    names = "; ".join(metric.label for metric in metrics)
    return "\n" + textwrap.fill(f"without values: {names}", TITLE_CHARACTERS)
