"""Predictions and attention of a model on randomly ablated inputs, over π."""

from __future__ import annotations

from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, draw, heading, in_rows, lines, n_text
from pisoft.figures.style import abreast
from pisoft.statistics.off_distribution import CLEAN, OPERATORS
from pisoft.statistics.results import select
from pisoft.views.titles import entropy_differences
from pisoft.views.view import View, display

MEASURES = {
    "entropy": "Entropy of the\nprediction, nats",
    "label_probability": "Probability of\nlabel words",
    "attention": "Attention on\nablated tokens",
    "hidden_norm": "Norm of the last\nlayer, clean = 1",
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
    first, last = next(iter(results.datasets)), [*results.datasets][-1]

    def fill(panel: Axes, keys: tuple[str, str]) -> None:
        dataset, measure = keys
        rows = select(results.rows, dataset=dataset, metric=measure)
        ablated, clean = select(rows, part=""), select(rows, part=CLEAN)
        lines(panel, ablated.assign(method=ablated["operator"]), operators)
        if measure == "attention":  # on the tokens that are ablated, so that it depends on π
            clean = select(clean, operator=next(iter(operators))).sort_values("position")
            heights: tuple[Any, Any] = clean["position"], clean["value"]
        else:
            heights = (0, 1), [1 if clean.empty else clean["value"].item()] * 2
        panel.plot(*heights, "--", color=GREY, linewidth=1, label="Clean input")
        panel.set(xlim=(0, 1), xticks=(0, 0.5, 1), xlabel="π" if dataset == last else "")
        if ablated["value"].isna().all():  # a gap rather than an empty panel
            panel.text(0.5, 0.5, "no value", transform=panel.transAxes, ha="center", style="italic")
            panel.spines[:].set_visible(False)
            panel.set(xticks=[], yticks=[], xlabel="")
        heads_column = dataset == first or abreast(len(MEASURES)) < len(MEASURES)
        panel.set_title(MEASURES[measure] if heads_column else "", fontsize="small")
        panel.set_ylabel(results.datasets[dataset] if measure == next(iter(MEASURES)) else "")

    panels = {" ".join(keys): keys for keys in product(results.datasets, MEASURES)}
    grid = in_rows(panels, len(MEASURES))
    single = select(results.rows, dataset=list(results.datasets))
    message = entropy_differences(single, operators)
    title = heading(view, n_text(single), message=message)
    return draw(title, fill, panels, 1.2 + 1.4 * len(grid), rows=grid)
