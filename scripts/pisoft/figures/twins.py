"""What methods gain over their own scores, shuffled over the tokens."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.config.slices import DisplaySlice
from pisoft.displays import display
from pisoft.figures.lines import sample_text
from pisoft.figures.style import line_styles, theme
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files, of_cell, present
from pisoft.statistics.twins import GAIN

PANELS = {"auc_pi_soft_ns": "AUC π-Soft-NS", "auc_pi_soft_nc": "AUC π-Soft-NC"}
GREY = "#4D4D4D"
LINE = 0.27  # inches per method


@display(
    title="Gain over permuted twins",
    by=("protocol", "model"),
    reads={"twins": "summary/twins"},
    cells="twin",
)
def plot(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Figure:
    """Draw the figure of one protocol and model."""
    rows = of_cell(files.rows("twins"), cell)
    return plot_twins(rows, present(settings.methods, rows), settings.where(cell))


def plot_twins(rows: pd.DataFrame, methods: Mapping[str, str], where: str) -> Figure:
    """Draw each method's gain, mean over datasets, with its 95 % bootstrap interval, best first.

    Args:
        rows: `twins` rows of one protocol and model.
        methods: label of each method.
        where: model and protocol, for the title.
    """
    gains = rows[(rows["part"] == GAIN) & (rows["dataset"] == AVERAGE)]
    with theme():
        figure = Figure(figsize=(10.4, 1.6 + LINE * len(methods)), layout="constrained")
        axes = figure.subplots(1, len(PANELS))
        for panel, (metric, label) in zip(axes, PANELS.items(), strict=True):
            _draw(panel, gains[gains["metric"] == metric].set_index("method"), methods)
            panel.set_xlabel(f"{label}, gain over shuffled scores (better →)")
        figure.suptitle(
            f"Gain over permuted twins · {where} · {sample_text(gains)}", fontsize="medium"
        )
    return figure


def _draw(panel: Axes, gains: pd.DataFrame, methods: Mapping[str, str]) -> None:
    styles = line_styles(methods)
    ordered = gains.loc[list(methods)].sort_values("value", ascending=False, na_position="last")
    for line, (name, row) in enumerate(ordered.iterrows()):
        look = styles[str(name)]
        panel.plot([row["low"], row["high"]], [line, line], color=look.colour, linewidth=2.5)
        panel.plot(row["value"], line, color=look.colour, marker=look.marker, markersize=8)
    panel.axvline(0, color=GREY, linewidth=1)
    panel.set_yticks(
        range(len(ordered)),
        [
            methods[str(name)] + (" (no value)" if pd.isna(row["value"]) else "")
            for name, row in ordered.iterrows()
        ],
    )
    panel.set_ylim(len(ordered) - 0.5, -0.5)
    seaborn.despine(ax=panel)
