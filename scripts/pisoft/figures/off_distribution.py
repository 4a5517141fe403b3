"""What a model makes of inputs of which random tokens are ablated, over π."""

from __future__ import annotations

from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, draw, lines, n_text
from pisoft.statistics.off_distribution import CLEAN, OPERATORS
from pisoft.statistics.results import select
from pisoft.views.registry import display
from pisoft.views.view import View

PANELS = {
    "entropy": "Entropy of the prediction, nats",
    "label_probability": "Probability of label words",
    "attention": "Attention on ablated tokens",
    "hidden_norm": "Norm of the last layer, clean = 1",
}


@display(
    title="Are perturbed inputs off-distribution?",
    by=("protocol", "model"),
    reads=("off_distribution",),
    cells="inputs",
)
def plot(view: View) -> Figure:
    """Draw a row of panels per dataset: a line per operator, and the clean input, grey."""
    results = view.results("off_distribution")
    present = set(results.rows["operator"])
    operators = {name: label for name, label in OPERATORS.items() if name in present}

    def fill(panel: Axes, dataset: str, measure: str) -> None:
        rows = select(results.rows, dataset=dataset, metric=measure)
        ablated, clean = select(rows, part=""), select(rows, part=CLEAN)
        lines(panel, ablated.assign(method=ablated["operator"]), operators)
        style: dict[str, Any] = {"color": GREY, "linestyle": "--", "linewidth": 1}
        if measure == "attention":  # on the tokens that are ablated, so that it depends on π
            clean = select(clean, operator=next(iter(operators))).sort_values("position")
            panel.plot(clean["position"], clean["value"], label="Clean input", **style)
        else:
            height = 1 if clean.empty else clean["value"].item()
            panel.axhline(height, label="Clean input", **style)
        if ablated["value"].isna().all():
            panel.text(0.5, 0.5, "no value", transform=panel.transAxes, ha="center", va="center")
            panel.set_yticks([])
        panel.set_xlabel("Retaining probability π")
        panel.set_xlim(0, 1)

    n = n_text(select(results.rows, dataset=list(results.datasets)))
    return draw(
        f"{view.heading} · {n}",
        {
            f"{label}\n{title}": partial(fill, dataset=dataset, measure=measure)
            for dataset, label in results.datasets.items()
            for measure, title in PANELS.items()
        },
        (13.5, 0.9 + 3.2 * len(results.datasets)),
        columns=len(PANELS),
    )
