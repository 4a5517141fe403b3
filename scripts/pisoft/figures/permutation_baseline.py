"""The gain of methods over their permuted scores."""

from __future__ import annotations

from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, dot_panels, n_text
from pisoft.statistics.metrics import AUC_METRICS, LEVEL, METRICS
from pisoft.statistics.results import select
from pisoft.views.titles import by_metric
from pisoft.views.view import View, display


@display(
    title="Gain over the permutation baseline",
    by=("protocol", "model"),
    reads=("permutation_baseline",),
    cells="permuted",
)
def plot(view: View) -> Figure:
    """Draw each method's mean gain over datasets with its 95 % interval, the best by NS first."""
    gains = view.results("permutation_baseline", part="gain")
    gains = gains.select(dataset=gains.summary)
    panels = {
        f"Gain in {METRICS[metric].label}": select(gains.rows, metric=metric)
        for metric in AUC_METRICS
    }
    findings = {}
    for metric, label in zip(AUC_METRICS, panels, strict=True):
        rows = panels[label].dropna(subset="value")
        better = (rows["value"] > 0) & (rows["p_adjusted"] < LEVEL)
        findings[metric] = f"{better.sum()} of {len(rows)}"
    message = f"Significantly better than their permuted scores: {by_metric(findings)}"
    n = n_text(gains.rows)
    figure = dot_panels(view, panels, gains.methods, n, highest_first=True, message=message)
    for panel in figure.axes:
        panel.axvline(0, color=GREY, linewidth=1)
    return figure
