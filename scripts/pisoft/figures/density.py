"""Density of scores against faithfulness (paper, app:attribution-distribution)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from pisoft.figures.panels import dot_panels, n_text
from pisoft.figures.style import abreast, theme
from pisoft.formatting import signed
from pisoft.statistics.metrics import AUC_METRICS, LEVEL, METRICS
from pisoft.statistics.results import select
from pisoft.views.titles import by_metric
from pisoft.views.view import Number, View, display

MEASURE = "mean_score"
PARTS = ["all", "without random"]


@display(
    title="Do the metrics reward dense scores?",
    by=("protocol", "model", "dataset"),
    reads=("statistics", "density", "density_correlations"),
)
def plot(view: View) -> Figure:
    """Draw each method's mean score and AUCs, sparse above dense, with Spearman's ρ in titles."""
    density = view.results("density", metric=MEASURE)
    areas = view.results("statistics", metric=AUC_METRICS, method=density.methods).rows
    correlations = view.results("density_correlations", other=MEASURE).rows
    panels = {"Mean score (dense →)": density.rows}
    findings = {}
    labels = ("Spearman's ρ with the mean score:", "without Random:")
    titles: list[Sequence[str]] = [labels]
    for metric in AUC_METRICS:
        panels[METRICS[metric].label] = select(areas, metric=metric)
        tested = select(correlations, metric=metric).set_index("part").reindex(PARTS)
        titles.append([*map(_number_text, tested.itertuples())])
        rho, p_value = tested.loc["all", ["value", "p_adjusted"]]
        if not np.isnan(p_value):
            trend = "higher" if rho > 0 else "lower"
            findings[metric] = trend if p_value < LEVEL else "no significant trend"
    message = f"AUC of methods with denser scores: {by_metric(findings)}" if findings else ""
    figure = dot_panels(view, panels, density.methods, n_text(areas), message=message)
    with theme():
        beside = len(figure.axes) == abreast(len(figure.axes))  # one title is beside another
        for panel, title in zip(figure.axes, titles, strict=True):
            if not beside:
                title = [] if title is labels else [*map(" ".join, zip(labels, title, strict=True))]
            panel.set_title("\n".join(title), fontsize="small", loc="right")
    return figure


def _number_text(number: Number) -> str:
    if number.value != number.value:
        return "undefined"
    interval = "" if number.low != number.low else f" [{number.low:.2f}, {number.high:.2f}]"
    return signed(f"{number.value:z.2f}{interval}")
