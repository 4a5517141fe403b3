"""How much of methods' scores stays when the model's layers are drawn anew, from the last on."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from pisoft.config.slices.display import DisplaySlice
from pisoft.figures.lines import draw_legend, sample_text
from pisoft.figures.style import line_styles, theme
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files, present

GREY = "#4D4D4D"
DODGE = 1.03  # factor between neighbours, so that error bars do not overlap
Settings = DisplaySlice


def plot(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> tuple[Figure, ...]:
    """Draw the figure of one model."""
    rows = files.rows("sanity", **cell)
    return (plot_sanity(rows, present(settings.methods, rows), settings.where(cell)),)


def plot_sanity(rows: pd.DataFrame, methods: Mapping[str, str], where: str) -> Figure:
    """Draw Spearman's ρ over the number of layers, mean over datasets, with 95 % intervals.

    Args:
        rows: `sanity` rows of one model.
        methods: label of each method, in the order of the legend.
        where: model, for the title.
    """
    means = rows[rows["dataset"] == AVERAGE]
    styles = line_styles(methods)
    with theme():
        figure = Figure(figsize=(7.2, 4.8), layout="constrained")
        panel = figure.subplots()
        for place, (name, label) in enumerate(methods.items()):
            line = means[means["method"] == name].sort_values("layers")
            look = styles[name]
            panel.errorbar(
                line["layers"] * DODGE ** (place - (len(methods) - 1) / 2),
                line["value"],
                yerr=[line["value"] - line["low"], line["high"] - line["value"]],
                label=f"{label} (no value)" if line["value"].isna().all() else label,
                color=look.colour,
                marker=look.marker,
                linestyle=look.dash,
                markersize=7,
                linewidth=1.4,
                capsize=3,
            )
        panel.axhline(0, color=GREY, linewidth=1)
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_locator(FixedLocator(sorted(means["layers"].unique())))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(ScalarFormatter())
        panel.set_xlabel("Decoder layers drawn anew, counted from the last")
        panel.set_ylabel("Spearman's ρ with the scores before ↓")
        seaborn.despine(ax=panel)
        title = f"Do scores change with the model? · {where} · {sample_text(means)}"
        figure.suptitle(title, fontsize="medium")
        draw_legend(figure)
    return figure
