"""What figures of curves over π share: lines with bands, one range of values, a legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pisoft.figures.style import LineStyle, line_styles, theme
from pisoft.statistics.intervals import half_widths

PI_SOFT = {"pi_soft_ns": "π-Soft-NS ↑", "pi_soft_nc": "π-Soft-NC ↑"}
LEGEND_CHARACTERS = 120  # that fit side by side below the panels
HANDLE_CHARACTERS = 9  # width of a line sample and its gaps
MARKED_EVERY = 3  # grid points; a marker on each would hide the lines
BAND_OPACITY = 0.22  # of a single band; many lie on top of one another
ROOM_FOR_BANDS = 0.25  # above and below the lines, in spans of the lines


def with_bands(curves: pd.DataFrame) -> pd.DataFrame:
    """Add the ends of the 95 % confidence intervals (Student's t), `low` and `high`.

    Args:
        curves: rows of kind `soft_curves`.
    """
    half_width = half_widths(curves["standard_error"], curves["n"])
    return curves.assign(low=curves["mean"] - half_width, high=curves["mean"] + half_width)


def draw_curves(
    curves: pd.DataFrame, panels: Mapping[str, str], methods: Mapping[str, str], where: str
) -> Figure:
    """Draw one panel per metric, with a line and a band per method over π, all named in a legend.

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
                curve = chosen[chosen["method"] == method]
                named = f"{name} (no value)" if curve["mean"].isna().all() else name
                draw_curve(panel, curve, styles[method], position).set_label(named)
            finish_panel(panel, label)
        share_range(axes, curves["mean"])
        figure.suptitle(f"{where} · {sample_text(curves)}", fontsize="medium")
        draw_legend(figure)
    return figure


def draw_curve(panel: Axes, curve: pd.DataFrame, style: LineStyle, position: int) -> Line2D:
    """Draw one method's line and band; markers of neighbours sit at different grid points."""
    curve = curve.sort_values("pi")
    (line,) = panel.plot(
        curve["pi"],
        curve["mean"],
        color=style.colour,
        marker=style.marker,
        linestyle=style.dash,
        markevery=(position % MARKED_EVERY, MARKED_EVERY),
        markersize=5,
        linewidth=1.4,
    )
    panel.fill_between(curve["pi"], curve["low"], curve["high"], color=style.colour, linewidth=0)
    return line


def finish_panel(panel: Axes, label: str) -> None:
    """Name the axes, and let many bands be as faint as few."""
    for band in panel.collections:
        band.set_alpha(BAND_OPACITY / len(panel.collections) ** 0.5)
    panel.set_xlabel("Retaining probability π")
    panel.set_ylabel(label)
    panel.set_xlim(0, 1)
    seaborn.despine(ax=panel)


def share_range(panels: Sequence[Axes], means: pd.Series) -> None:
    """Let the lines fill one range of all panels: bands that are much wider than it are cut."""
    lowest, highest = means.min(), means.max()
    room = ROOM_FOR_BANDS * (highest - lowest)
    if room > 0:
        bottoms, tops = zip(*(panel.get_ylim() for panel in panels), strict=True)
        ends = max(min(bottoms), lowest - room), min(max(tops), highest + room)
        for panel in panels:
            panel.set_ylim(ends)


def begin_at_zero(panels: Sequence[Axes], means: pd.Series) -> None:
    """Let π-Soft metrics begin at 0, but where π-Soft-NS is negative, as it is not clamped."""
    if not means.min() < 0:
        for panel in panels:
            panel.set_ylim(bottom=0)


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
