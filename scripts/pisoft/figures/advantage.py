"""Each method's advantage over random scores by π (paper, paragraph 'Insights')."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from pisoft.displays import display
from pisoft.figures.lines import draw_curves
from pisoft.figures.style import theme
from pisoft.statistics.metrics import NO_CONTROL
from pisoft.statistics.reading import of_cell, present
from pisoft.views import View

PANELS = {
    "pi_soft_ns": "π-Soft-NS less Random's ↑",
    "pi_soft_nc": "π-Soft-NC less Random's ↑",
}
MIDDLE = 0.5  # from which on the paper sees an advantage
ZERO = "#4D4D4D"


@display(
    title="Advantage over random scores by π",
    by=("protocol", "model", "dataset"),
    reads={"advantage": "summary/advantage"},
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol, model and dataset."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = of_cell(files.rows("advantage"), cell)
    return plot_advantage(rows, present(settings.methods, rows), settings.where(cell))


def plot_advantage(rows: pd.DataFrame, methods: Mapping[str, str], where: str) -> Figure:
    """Draw mean differences to random scores over π, with their 95 % bootstrap intervals.

    Args:
        rows: `advantage` rows of one protocol, model and dataset; none: there are no random scores.
        methods: label of each method, in the order of the legend.
        where: model, dataset and protocol, for the title.
    """
    if rows.empty:
        with theme():
            figure = Figure(figsize=(9.2, 1.2))
            figure.text(0.5, 0.4, NO_CONTROL, ha="center")
            figure.suptitle(where, fontsize="medium")
        return figure
    curves = rows.dropna(subset="pi").rename(columns={"value": "mean"})
    figure = draw_curves(curves, PANELS, methods, f"Advantage over random scores · {where}")
    for panel in figure.axes:
        low, high = panel.get_ylim()
        panel.set_ylim(min(low, 0), max(high, 0))
        panel.axhline(0, color=ZERO, linewidth=1)
        panel.axvline(MIDDLE, color=ZERO, linewidth=0.8, linestyle=":")
    return figure
