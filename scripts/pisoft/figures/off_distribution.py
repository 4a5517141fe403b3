"""What a model makes of inputs of which random tokens are taken away, over π."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.displays import display
from pisoft.figures.lines import draw_curve, draw_legend, finish_panel, sample_text
from pisoft.figures.style import line_styles, theme
from pisoft.statistics.off_distribution import OPERATORS
from pisoft.statistics.reading import of_cell
from pisoft.views import View

PANELS = {
    "entropy": "Entropy of the prediction, nats",
    "label_probability": "Probability of label words",
    "attention": "Attention on tokens taken away",
    "hidden_norm": "Norm of the last layer, clean = 1",
}
CLEAN = "#4D4D4D"


@display(
    title="Is a perturbed input still language?",
    by=("protocol", "model"),
    reads={"off_distribution": "summary/off_distribution"},
    cells="inspected",
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol and model."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = of_cell(files.rows("off_distribution"), cell)
    return plot_language(rows, settings.datasets, settings.where(cell))


def plot_language(rows: pd.DataFrame, datasets: Mapping[str, str], where: str) -> Figure:
    """Draw a row of panels per dataset: a line per operator, and the clean input, grey.

    Bands are 95 % bootstrap intervals over samples. A panel without a number says so.

    Args:
        rows: `language` rows of one protocol and model.
        datasets: label of each dataset; those that were not inspected are left out.
        where: model and protocol, for the title.
    """
    known = {name: label for name, label in datasets.items() if name in set(rows["dataset"])}
    rows = rows[rows["dataset"].isin(list(known))].rename(columns={"value": "mean"})
    with theme():
        figure = Figure(figsize=(13.5, 0.9 + 3.2 * len(known)), layout="constrained")
        grid = figure.subplots(len(known), len(PANELS), squeeze=False)
        for (name, label), panels in zip(known.items(), grid, strict=True):
            of_dataset = rows[rows["dataset"] == name]
            for panel, (measure, title) in zip(panels, PANELS.items(), strict=True):
                _draw(panel, of_dataset, measure)
                finish_panel(panel, title)
            panels[0].set_ylabel(f"{label}\n{PANELS['entropy']}")
        figure.suptitle(
            f"Is a perturbed input still language? · {where} · {sample_text(rows)}",
            fontsize="medium",
        )
        draw_legend(figure)
    return figure


def _draw(panel: Axes, rows: pd.DataFrame, measure: str) -> None:
    """Draw one measure of one dataset."""
    operators = [name for name in OPERATORS if name in set(rows["operator"])]
    styles = line_styles(operators)
    own = rows[rows["measure"] == measure]
    if own["mean"].isna().all():
        panel.text(0.5, 0.5, "no value", transform=panel.transAxes, ha="center", va="center")
        panel.set_yticks([])
    for position, operator in enumerate(operators):
        curve = own[own["operator"] == operator]
        line = draw_curve(panel, curve, styles[operator], position)
        line.set_label(OPERATORS[operator])
    clean = rows[(rows["measure"] == f"clean_{measure}") & (rows["operator"] == operators[0])]
    clean = clean.sort_values("pi")
    pi, values = (clean["pi"], clean["mean"]) if len(clean) else ((0, 1), (1, 1))
    panel.plot(pi, values, color=CLEAN, linestyle="--", linewidth=1, label="Clean input")
