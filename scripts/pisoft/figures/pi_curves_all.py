"""The paper's figures with every method (π-Soft curves, figure soft-ns/nc_fig)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pisoft.figures.panels import (
    GREY,
    draw,
    draw_band,
    heading,
    in_rows,
    legend_below,
    n_text,
    or_no_value,
)
from pisoft.figures.style import line_styles, theme
from pisoft.statistics.metrics import CONTROL, CURVE_METRICS
from pisoft.statistics.results import select
from pisoft.views.titles import by_metric, count_text
from pisoft.views.view import View, display

COLUMNS = 5  # of panels
ROW_HEIGHT = 1.25  # inches
DASHES: dict[str, Any] = dict(zip(CURVE_METRICS, ("-", (0, (3, 1.5))), strict=True))


@display(
    title="Every method over the retaining probability π",
    by=("protocol", "model", "dataset"),
    reads=("curves",),
)
def plot(view: View) -> Figure:
    """Draw a panel for each method: its curves, and those of random scores in grey."""
    curves = view.results("curves")
    means = curves.rows.pivot(index=["metric", "method"], columns="position", values="value")
    means = means.dropna(axis="columns", how="all")  # where no sample is measured
    findings = {}
    if CONTROL in curves.rows.dropna(subset="value")["method"].unique():
        for metric in CURVE_METRICS:
            curves_of_methods = means.loc[metric].drop(CONTROL).dropna(how="all")
            above = (curves_of_methods > means.loc[metric, CONTROL]).all(axis=1)
            findings[f"auc_{metric}"] = f"{above.sum()} of {count_text(len(above), 'method')}"
    message = f"Means above random scores at every π: {by_metric(findings)}" if findings else ""
    title = heading(view, n_text(curves.rows), message=message)
    return by_method(title, curves.rows, curves.methods)


def by_method(title: str, rows: pd.DataFrame, methods: Mapping[str, str]) -> Figure:
    """Return a panel per method: both metrics over π, 95 % intervals, random scores in grey."""
    looks, values = line_styles(methods), rows.groupby("method")["value"].max()

    def fill(panel: Axes, name: str) -> None:
        for method, colour in {CONTROL: GREY, name: looks[name].colour}.items():
            for metric, dash in DASHES.items():
                line = select(rows, method=method, metric=metric).sort_values("position")
                panel.plot(line["position"], line["value"], color=colour, linestyle=dash)
                draw_band(panel, line, colour)
        panel.axhline(0, color=GREY, linewidth=0.6)
        panel.set_title(or_no_value(methods[name], values[name]), fontsize="small")
        panel.set(xlim=(0, 1), xticks=(0, 0.5, 1), xlabel="π", ylabel="")

    panels = {name: name for name in methods}
    grid = in_rows(panels, COLUMNS)
    height = 1.1 + ROW_HEIGHT * len(grid)
    figure = draw(title, fill, panels, height, False, grid, sharex=True, sharey=True)
    keys = [
        Line2D([], [], color="black", linestyle=DASHES[metric], label=label)
        for metric, label in CURVE_METRICS.items()
    ]
    if CONTROL in values:
        keys.append(Line2D([], [], color=GREY, label=f"in grey: {methods[CONTROL]}"))
    for panel in figure.axes:
        panel.label_outer()
    with theme():
        legend_below(figure, keys)
    return figure
