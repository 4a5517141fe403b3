"""Each method's advantage over random scores by π (paper, paragraph 'Insights')."""

from __future__ import annotations

from matplotlib.figure import Figure

from pisoft.figures.panels import heading, in_width, n_text
from pisoft.figures.pi_curves_all import by_method
from pisoft.figures.style import theme, width
from pisoft.statistics.metrics import CURVE_METRICS, LEVEL, NO_CONTROL
from pisoft.views.titles import by_metric, count_text
from pisoft.views.view import Results, View, display


@display(
    title="Advantage over random scores by π",
    by=("protocol", "model", "dataset"),
    reads=("advantage",),
)
def plot(view: View) -> Figure:
    """Draw mean differences to random scores over π, with their 95 % confidence intervals."""
    advantage = view.results_if_any("advantage")
    points = advantage.select(part="at")
    if not points.rows.empty:
        findings = {f"auc_{name}": _better(advantage, metric=name) for name in CURVE_METRICS}
        message = f"Significantly better than random: {by_metric(findings)}"
        title = heading(view, n_text(points.rows), message=message)
        return by_method(title, points.rows, points.methods)
    with theme():
        figure = Figure(figsize=(width(), 1.2))
        figure.text(0.5, 0.3, in_width(NO_CONTROL), ha="center")
        figure.suptitle(heading(view, "n = 0"))
    return figure


def _better(advantage: Results, metric: str) -> str:
    """Count the methods that are better in each half of the grid."""
    halves = advantage.select(metric=metric, part=["lower", "upper"]).rows.dropna(subset="value")
    better = halves[(halves["value"] > 0) & (halves["p_adjusted"] < LEVEL)]["part"]
    low, high = ((better == part).sum() for part in ("lower", "upper"))
    methods = count_text(halves["method"].nunique(), "method")
    return f"{low} of {methods} for π ≤ 0.5 and {high} for π > 0.5"
