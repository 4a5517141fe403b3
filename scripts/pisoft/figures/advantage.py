"""Each method's advantage over random scores by π (paper, paragraph 'Insights')."""

from __future__ import annotations

from functools import partial

from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, draw, lines, n_text, over_pi
from pisoft.figures.style import theme
from pisoft.statistics.metrics import CURVE_METRICS, NO_CONTROL
from pisoft.statistics.results import select
from pisoft.views.registry import display
from pisoft.views.view import View

MIDDLE = 0.5  # from which on the paper sees an advantage


@display(
    title="Advantage over random scores by π",
    by=("protocol", "model", "dataset"),
    reads=("advantage",),
)
def plot(view: View) -> Figure:
    """Draw mean differences to random scores over π, with their 95 % confidence intervals."""
    points = view.results_if_any("advantage").select(part="at")
    if points.rows.empty:
        with theme():
            figure = Figure(figsize=(9.2, 1.2))
            figure.text(0.5, 0.4, NO_CONTROL, ha="center")
            figure.suptitle(view.heading, fontsize="medium")
        return figure
    panels = {
        f"{label.rstrip(' ↑')} less Random's ↑": partial(
            lines, rows=select(points.rows, metric=metric), labels=points.methods
        )
        for metric, label in CURVE_METRICS.items()
    }
    title = f"{view.heading} · {n_text(points.rows)}"
    figure = draw(title, panels, (9.2, 4.6))
    over_pi(figure.axes, points.rows["value"])
    for panel in figure.axes:
        low, high = panel.get_ylim()
        panel.set_ylim(min(low, 0), max(high, 0))
        panel.axhline(0, color=GREY, linewidth=1)
        panel.axvline(MIDDLE, color=GREY, linewidth=0.8, linestyle=":")
    return figure
