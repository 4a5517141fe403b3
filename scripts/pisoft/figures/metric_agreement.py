"""Heatmaps of the agreement of metrics on the order of the methods."""

from __future__ import annotations

from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pisoft.figures import panels
from pisoft.figures.style import FULL_WIDTH, page_width, theme, width
from pisoft.statistics.metric_agreement import Labels, metric_agreement, ordering_metrics
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.results import select
from pisoft.views.view import View, display

PANELS_ABREAST = 5  # of single datasets


@display(title="Do metrics agree on methods?", by=("model",), reads=("statistics",), numbers=True)
@page_width(FULL_WIDTH)  # in fewer millimetres, names and numbers have no room
def plot(view: View) -> tuple[Figure, pd.DataFrame]:
    """Draw Kendall's τ of every two metrics, for the mean over datasets and each, and return it."""
    on_model = view.settings.methods_on(view.cell["model"])  # not those of selected depths
    results = view.results("statistics", method=on_model)
    metrics, left_out = ordering_metrics(results.rows)
    rows = metric_agreement(results.rows, metrics, results.datasets)
    small = results.datasets if len(results.datasets) > 1 else {}
    side, abreast = max(2.4, 0.24 * len(metrics)), min(PANELS_ABREAST, len(small))
    heights = [side + 0.8, *([1.4 * -(-len(small) // abreast)] if small else []), 1.0]
    with theme():
        figure = Figure(figsize=(width(), sum(heights)), layout="constrained")
        parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)
        top, *middle, bottom = parts[:, 0]
        panel, average = top.subplots(), _triangle(rows, AVERAGE, metrics)
        panels.heatmap(panel, average, panels.TAU)
        panels.mark_gaps(panel, np.isnan(average) & np.tri(len(average), dtype=bool))
        numbers = [str(number) for number in range(1, len(metrics) + 1)]
        names = map("  ".join, zip(metrics.values(), numbers, strict=True))
        panels.name_cells(panel, numbers[:-1], [*names][1:], rotation=0)
        first = "".join([*metrics.values()][:1])
        panel.set_xlabel(f"1: {first}", fontsize="small")
        large = "Mean over datasets" if small else "".join(results.datasets.values())
        panel.set_title(large, fontsize="small")
        for part in middle:
            axes = part.subplots(-(-len(small) // abreast), abreast, squeeze=False).ravel()
            for panel, (dataset, label) in zip(axes, small.items(), strict=False):
                panels.heatmap(panel, _triangle(rows, dataset, metrics), panels.TAU, numbers=False)
                panel.set_title(label, fontsize="small")
            for panel in axes[len(small) :]:
                panel.set_axis_off()
        most = 0 if rows.empty else rows["n"].max()
        message = panels.median_tau("Metrics rank methods", average.ravel())
        title = panels.heading(view, f"{most} methods", message=message)
        figure.suptitle(title + _left_out_text(left_out))
        panels.add_scale(bottom.add_axes((0.3, 0.75, 0.4, 0.15)), panels.TAU, panels.TAU_MEANING)
    return figure, rows


def _triangle(rows: pd.DataFrame, dataset: str, metrics: Labels) -> np.ndarray:
    """Return the τ of a dataset, (M - 1, M - 1): rows are the second metric, columns the first."""
    wide = select(rows, dataset=dataset).pivot(
        index=["part", "other"], columns=["protocol", "metric"], values="value"
    )
    names = pd.MultiIndex.from_tuples(list(metrics))
    return wide.reindex(index=names[1:], columns=names[:-1]).to_numpy(dtype=float)


def _left_out_text(metrics: Labels) -> str:
    names = fill(f"No values in this run: {'; '.join(metrics.values())}", panels.TITLE_CHARACTERS)
    return f"\n{names}" if metrics else ""
