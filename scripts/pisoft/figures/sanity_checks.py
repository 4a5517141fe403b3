"""How much of methods' scores stays when the model knows less, or reads another input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter
from numpy.typing import ArrayLike

from pisoft.displays import display
from pisoft.figures.lines import draw_legend, sample_text
from pisoft.figures.style import Dash, LineStyle, line_styles, theme
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import present
from pisoft.views import View

GREY = "#4D4D4D"
DODGE = 1.03  # factor between neighbours, so that error bars do not overlap
SPREAD = 0.7  # of all methods, where checks stand side by side, 1 apart
OTHERS = {"labels": "Shuffled\nlabels", "input": "Another\ninput"}


@display(
    title="Do scores change with model and input?",
    by=("model",),
    reads={"sanity_checks": "summary/sanity_checks"},
    cells="sanity",
)
def plot(view: View) -> Figure:
    """Draw the figure of one model."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = files.rows("sanity_checks", **cell)
    return plot_sanity(rows, present(settings.methods, rows), settings.where(cell))


def plot_sanity(rows: pd.DataFrame, methods: Mapping[str, str], where: str) -> Figure:
    """Draw Spearman's ρ of every check, mean over datasets, with 95 % intervals.

    Args:
        rows: `sanity` rows of one model.
        methods: label of each method, in the order of the legend.
        where: model, for the title.
    """
    means = rows[rows["dataset"] == AVERAGE]
    drawn = means[means["check"] == "layers"]
    others = {check: label for check, label in OTHERS.items() if check in set(means["check"])}
    styles = line_styles(methods)
    with theme():
        figure = Figure(figsize=(9.2, 4.8), layout="constrained")
        layers, beside = figure.subplots(1, 2, sharey=True, width_ratios=[3, len(others)])
        for place, (name, label) in enumerate(methods.items()):
            shift, look = place - (len(methods) - 1) / 2, styles[name]
            line = drawn[drawn["method"] == name].sort_values("layers")
            named = f"{label} (no value)" if line["value"].isna().all() else label
            _draw(layers, line["layers"] * DODGE**shift, line, look, named, look.dash)
            points = means[means["method"] == name].set_index("check").loc[list(others)]
            abreast = np.arange(len(others)) + SPREAD * shift / len(methods)
            _draw(beside, abreast, points, look, named, "none")
        layers.set_xscale("log", base=2)
        layers.xaxis.set_major_locator(FixedLocator(sorted(drawn["layers"].unique())))
        layers.xaxis.set_minor_locator(NullLocator())
        layers.xaxis.set_major_formatter(ScalarFormatter())
        layers.set_xlabel("Decoder layers drawn anew, counted from the last")
        layers.set_ylabel("Spearman's ρ with the scores as they are ↓")
        beside.set_xticks(range(len(others)), list(others.values()))
        beside.set_xlim(-0.5, len(others) - 0.5)
        for panel in (layers, beside):
            panel.axhline(0, color=GREY, linewidth=1)
            seaborn.despine(ax=panel)
        title = f"Do scores change with model and input? · {where} · {sample_text(means)}"
        figure.suptitle(title, fontsize="medium")
        draw_legend(figure)
    return figure


def _draw(
    panel: Axes, places: ArrayLike, rows: pd.DataFrame, look: LineStyle, label: str, dash: Dash
) -> None:
    """Draw one method's means with their intervals."""
    panel.errorbar(
        places,
        rows["value"],
        yerr=[rows["value"] - rows["low"], rows["high"] - rows["value"]],
        label=label,
        color=look.colour,
        marker=look.marker,
        linestyle=dash,
        markersize=7,
        linewidth=1.4,
        capsize=3,
    )
