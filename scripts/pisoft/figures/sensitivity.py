"""Sensitivity of the order of the methods to choices of the metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, LINE_HEIGHT, draw, heading, n_text
from pisoft.figures.style import abreast
from pisoft.statistics.alternatives import ALTERNATIVES
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.statistics.results import select
from pisoft.views.titles import MOSTLY, changed_leaders
from pisoft.views.view import MISSING, View, display

SAME, CHANGED, SINGLE = "#0072B2", "#D55E00", "#8C8C8C"
BESIDE = 1.02  # in widths of a panel: where shares stand


@display(
    title="Does the ranking depend on the metric's settings?",
    by=("protocol", "model"),
    reads=("sensitivity",),
    cells="sensitivity",
)
def plot(view: View) -> Figure:
    """Draw τ of every alternative's order with the run's, one panel per metric.

    Dots are means over datasets with 95 % bootstrap intervals, rings single datasets. The text
    beside them says whether another method is best, or why there is no number.
    """
    results = view.results("sensitivity")
    taus = select(results.rows, other="")
    names = [name for name in ALTERNATIVES if name in set(taus["part"])]
    average = results.select(dataset=AVERAGE)
    datasets = list(results.datasets) if len(results.datasets) > 1 else []
    lowest = np.nanmin([0.0, *taus["value"], *taus["low"]])

    def fill(panel: Axes, metric: str) -> None:
        panel.axvline(1, color=GREY, linewidth=1)
        panel.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
        beside: dict[str, Any] = {
            "transform": panel.get_yaxis_transform(),  # x in parts of the panel's width
            "va": "center",
            "fontsize": "x-small",
        }
        panel.text(BESIDE, -1, "other best", **beside)
        for line, name in enumerate(names):
            keys = {"metric": metric, "part": name}
            tau, best = average.number(keys), average.number({**keys, "other": "best_changes"})
            if np.isnan(tau.value):
                why = "does not apply" if tau is MISSING else tau.text
                panel.text(0.1, line, why, style="italic", backgroundcolor="white", **beside)
                continue
            colour = CHANGED if best.value >= MOSTLY else SAME
            panel.plot([tau.low, tau.high], [line, line], color=colour, linewidth=1.8)
            panel.plot(tau.value, line, "o", color=colour, markersize=5)
            answer = "yes" if best.value else "no"
            panel.text(BESIDE, line, answer if best.text else f"{100 * best.value:.0f} %", **beside)
        single = select(taus, metric=metric, dataset=datasets).dropna(subset="value")
        lines = [names.index(name) + 0.25 for name in single["part"]]
        panel.plot(single["value"], lines, "o", color=SINGLE, markersize=3, markerfacecolor="none")
        panel.set_title(METRICS[metric].label.rstrip(" ↑"), fontsize="medium")
        panel.set_yticks(range(len(names)), [ALTERNATIVES[name] for name in names])
        panel.set_ylim(len(names) - 0.5, -1.5)
        panel.set_xlim(lowest - 0.05, 1.05)
        rings = "\nrings: single datasets" if datasets else ""
        label = "τ-b with the run's order (1: same)"
        if abreast(len(AUC_METRICS)) == 1:  # the panel is as narrow as its names are long
            label = label.replace(" (", "\n(")
        panel.set_xlabel(f"{label}\n95 % interval over samples{rings}")
        panel.set_ylabel("")

    panels = {metric: metric for metric in AUC_METRICS}
    height = 1.5 + LINE_HEIGHT * (len(names) + 1)  # a row for the heading of the shares
    title = heading(view, n_text(average.rows), message=changed_leaders(average.rows))
    return draw(title, fill, panels, height, legend=False, sharey=True)
