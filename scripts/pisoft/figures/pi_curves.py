"""The paper's figures (π-Soft curves, figure soft-ns/nc_fig)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.config.slices.display import DisplaySlice
from pisoft.figures.style import LineStyle, line_styles, theme
from pisoft.statistics.intervals import half_widths
from pisoft.statistics.reading import Files, present

PANELS = {"pi_soft_ns": "π-Soft-NS ↑", "pi_soft_nc": "π-Soft-NC ↑"}
LEGEND_CHARACTERS = 120  # that fit side by side below the panels
HANDLE_CHARACTERS = 9  # width of a line sample and its gaps
MARKED_EVERY = 3  # grid points; a marker on each would hide the lines
BAND_OPACITY = 0.22  # of a single band; many lie on top of one another
ROOM_FOR_BANDS = 0.25  # above and below the lines, in spans of the lines


Settings = DisplaySlice


def plot(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> tuple[Figure, ...]:
    """Draw the figure of one protocol, model and dataset."""
    curves = files.rows("soft_curves", **cell)
    methods = present(settings.methods, curves)
    return (plot_pi_curves(curves, methods, settings.where(cell)),)


def plot_pi_curves(curves: pd.DataFrame, methods: Mapping[str, str], where: str) -> Figure:
    """Draw π-Soft-NS and π-Soft-NC over the retaining probability, one line per method.

    Bands are 95 % confidence intervals of the mean over samples (Student's t). A method without any
    value has no line and says so in the legend.

    Args:
        curves: `soft_curves` rows of one protocol, model and dataset.
        methods: label of each method, in the order of the legend.
        where: model, dataset and protocol, for the title.
    """
    half_width = half_widths(curves["standard_error"], curves["n"])
    ends = {"low": curves["mean"] - half_width, "high": curves["mean"] + half_width}
    figure = draw_curves(curves.assign(**ends), PANELS, methods, where)
    for panel, metric in zip(figure.axes, PANELS, strict=True):
        lowest = curves.loc[curves["metric"] == metric, "mean"].min()
        if not lowest < 0:  # π-Soft-NS is negative only where it is not clamped
            panel.set_ylim(bottom=0)
    return figure


def draw_curves(
    curves: pd.DataFrame, panels: Mapping[str, str], methods: Mapping[str, str], where: str
) -> Figure:
    """Draw one panel per metric, with a line and a band per method over π.

    Args:
        curves: `metric`, `method`, `pi`, `mean`, `low`, `high`, `n` of one model and dataset.
        panels: label of each metric.
        methods: label of each method, in the order of the legend.
        where: what is shown, for the title.
    """
    styles = line_styles(methods)
    with theme():
        figure = Figure(figsize=(9.2, 4.6), layout="constrained")
        axes = figure.subplots(1, len(panels))
        for panel, (metric, label) in zip(axes, panels.items(), strict=True):
            chosen = curves[curves["metric"] == metric]
            for position, (method, name) in enumerate(methods.items()):
                curve = chosen[chosen["method"] == method].sort_values("pi")
                _draw_curve(panel, curve, name, styles[method], position)
            for band in panel.collections:
                band.set_alpha(BAND_OPACITY / len(methods) ** 0.5)
            _finish_panel(panel, label, chosen["mean"])
        figure.suptitle(f"{where} · {sample_text(curves)}", fontsize="medium")
        draw_legend(figure)
    return figure


def _draw_curve(
    panel: Axes, curve: pd.DataFrame, label: str, style: LineStyle, position: int
) -> None:
    """Draw one method; markers of neighbouring methods sit at different grid points."""
    empty = curve["mean"].isna().all()
    panel.plot(
        curve["pi"],
        curve["mean"],
        label=f"{label} (no value)" if empty else label,
        color=style.colour,
        marker=style.marker,
        linestyle=style.dash,
        markevery=(position % MARKED_EVERY, MARKED_EVERY),
        markersize=5,
        linewidth=1.4,
    )
    panel.fill_between(curve["pi"], curve["low"], curve["high"], color=style.colour, linewidth=0)


def _finish_panel(panel: Axes, label: str, means: pd.Series) -> None:
    """Name the axes, and let the lines fill the panel: bands wider than that are cut."""
    lowest, highest = means.min(), means.max()
    room = ROOM_FOR_BANDS * (highest - lowest)
    panel.set_xlabel("Retaining probability π")
    panel.set_ylabel(label)
    panel.set_xlim(0, 1)
    if room > 0:
        bottom, top = panel.get_ylim()
        panel.set_ylim(max(bottom, lowest - room), min(top, highest + room))
    seaborn.despine(ax=panel)


def draw_legend(figure: Figure) -> None:
    """Name the first panel's lines below all panels."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=legend_columns(labels),
        frameon=False,
        handlelength=3.5,
    )


def legend_columns(labels: list[str]) -> int:
    """Return as many columns as fit below the panels if all were as wide as the longest label."""
    longest = max(len(label) for label in labels)
    return max(1, min(len(labels), LEGEND_CHARACTERS // (longest + HANDLE_CHARACTERS)))


def sample_text(curves: pd.DataFrame) -> str:
    """Return `n = 98`, or a range over the methods that have a value where they differ."""
    counts = curves.loc[curves["n"] > 0, "n"]
    if counts.empty:
        return "n = 0"
    fewest, most = counts.min(), counts.max()
    return f"n = {most}" if fewest == most else f"n = {fewest}\N{EN DASH}{most}"
