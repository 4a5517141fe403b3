"""Each method's advantage over random scores by π (paper, paragraph 'Insights')."""

from __future__ import annotations

from matplotlib.figure import Figure

from pisoft.figures.panels import heading, n_text
from pisoft.figures.pi_curves_all import by_method
from pisoft.figures.style import WIDTH, theme
from pisoft.statistics.metrics import NO_CONTROL
from pisoft.views.registry import display
from pisoft.views.view import View


@display(
    title="Advantage over random scores by π",
    by=("protocol", "model", "dataset"),
    reads=("advantage",),
)
def plot(view: View) -> Figure:
    """Draw mean differences to random scores over π, with their 95 % confidence intervals."""
    points = view.results_if_any("advantage").select(part="at")
    if not points.rows.empty:
        return by_method(heading(view, n_text(points.rows)), points.rows, points.methods)
    with theme():
        figure = Figure(figsize=(WIDTH, 1.2))
        figure.text(0.5, 0.3, NO_CONTROL, ha="center")
        figure.suptitle(heading(view, "n = 0"))
    return figure
