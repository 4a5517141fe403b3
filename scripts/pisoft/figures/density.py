"""How dense a method's scores are against how faithful (paper, app:attribution-distribution)."""

from __future__ import annotations

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.figures.panels import draw, n_text, scatter
from pisoft.formatting import signed
from pisoft.statistics.metrics import AUC_METRICS, METRICS
from pisoft.statistics.results import select
from pisoft.views.registry import display
from pisoft.views.view import Number, View

MEASURE = "mean_score"
AMONG = {"all": "all methods", "without random": "without random scores"}


@display(
    title="Are dense scores what is rewarded?",
    by=("protocol", "model", "dataset"),
    reads=("statistics", "density", "density_correlations"),
)
def plot(view: View) -> Figure:
    """Draw each method at its mean score and mean AUC; titles have their rank correlation."""
    density = view.results("density", metric=MEASURE)
    areas = view.results("statistics", metric=AUC_METRICS, method=density.methods).rows
    correlations = view.results("density_correlations", other=MEASURE).rows

    def fill(panel: Axes, metric: str) -> None:
        scatter(panel, density.rows, select(areas, metric=metric), density.methods)
        texts = [
            f"Spearman's ρ, {AMONG[row.part]}: {_number_text(row)}"
            for row in select(correlations, metric=metric).itertuples()
        ]
        panel.set_title("\n".join(texts), fontsize="small")
        panel.set_xlabel("Mean score (→ dense)")

    return draw(
        f"{view.heading} · {n_text(areas)}",
        {METRICS[metric].label: partial(fill, metric=metric) for metric in AUC_METRICS},
        (9.2, 5.0),
    )


def _number_text(number: Number) -> str:
    if number.value != number.value:
        return "undefined"
    interval = "" if number.low != number.low else f" [{number.low:.2f}, {number.high:.2f}]"
    return signed(f"{number.value:.2f}{interval}")
