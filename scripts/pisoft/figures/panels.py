"""The kinds of panels that figures are made of: lines, dots, heatmaps and scatter plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from pisoft.figures.style import LineStyle, NotebookFigure, line_styles, theme
from pisoft.formatting import NOTHING, signed

GREY = "#4D4D4D"
MARKED_EVERY = 3  # grid points; a marker on each would hide the lines
BAND_OPACITY = 0.22  # of a single band; many lie on top of one another
MARGIN = 0.25  # above and below the lines, in spans of the lines
LEGEND_CHARACTERS = 120  # that fit side by side below the panels
HANDLE_CHARACTERS = 9  # width of a line sample and its gaps
LINE_HEIGHT = 0.27  # inches per dot
NUMBER_SIZE = 6.5  # points, in a heatmap
Look = tuple[str, float, float]  # a colour map that any colour vision can read, and its range
TAU: Look = ("RdBu", -1.0, 1.0)  # blue agrees
OVERLAP: Look = ("Purples", 0.0, 1.0)
TAU_MEANING = "Kendall's τ-b\n(1: same order, 0: unrelated, −1: opposite)"
Panel = Callable[[Axes], None]


def draw(
    title: str,
    panels: Mapping[str, Panel],
    size: tuple[float, float],
    legend: bool = True,
    columns: int | None = None,
    **layout: Any,
) -> Figure:
    """Return panels side by side, each with its label at the y axis, and one legend below.

    Args:
        title: above the panels.
        panels: by label, a function that fills the axes and may change how they look.
        size: inches.
        legend: whether there is one; lines may be named beside the panels instead.
        columns: panels in a row; None: all of them.
        layout: as :meth:`matplotlib.figure.Figure.subplots` takes it.
    """
    with theme():
        figure = NotebookFigure(figsize=size, layout="constrained")
        columns = columns or len(panels)
        axes = list(
            figure.subplots(-(-len(panels) // columns), columns, squeeze=False, **layout).flat
        )
        for panel, (label, fill) in zip(axes, panels.items(), strict=False):
            panel.set_ylabel(label)
            seaborn.despine(ax=panel)
            fill(panel)
        for panel in axes[len(panels) :]:
            panel.set_axis_off()
        figure.suptitle(title, fontsize="medium")
        if legend:
            legend_below(figure, figure.axes[0].get_legend_handles_labels()[0])
    return figure


def legend_below(figure: Figure, handles: Sequence[Any]) -> None:
    """Name lines below the panels, in as many columns as fit if all had the longest label."""
    longest = max((len(handle.get_label()) for handle in handles), default=0)
    columns = max(1, min(len(handles), LEGEND_CHARACTERS // (longest + HANDLE_CHARACTERS)))
    if handles:
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            handlelength=3.5,
        )


def n_text(rows: pd.DataFrame) -> str:
    """Return `n = 98`, or a range over what has a value where they differ."""
    counts = rows.loc[rows["n"] > 0, "n"]
    if counts.empty:
        return "n = 0"
    ends = dict.fromkeys(f"{n:.0f}" for n in (counts.min(), counts.max()))
    return "n = " + "\N{EN DASH}".join(ends)


def or_no_value(label: str, *values: float) -> str:
    """Return a label that says so if any of its values is missing."""
    return f"{label} (no value)" if np.isnan(values).any() else label


# Lines ------------------------------------------------------------------------------------------


def lines(
    panel: Axes,
    rows: pd.DataFrame,
    labels: Mapping[str, str],
    dodge: float | None = None,
    styles: Mapping[str, LineStyle] | None = None,
) -> None:
    """Draw a line over `position` for each method, with 95 % intervals.

    Args:
        panel: where.
        rows: results; `method`, `position`, `value`, `low` and `high` are read.
        labels: of the methods, in the order of the legend.
        dodge: None: intervals are bands; else error bars, and this is the factor between the
            positions of neighbours, so that the bars do not overlap.
        styles: of the methods, if not their usual ones.
    """
    looks = styles or line_styles(labels)
    for index, (name, label) in enumerate(labels.items()):
        line, look = rows[rows["method"] == name].sort_values("position"), looks[name]
        named = label if line["value"].notna().any() else f"{label} (no value)"
        style = {**look.point, **look.line, "linewidth": 1.4, "label": named}
        if dodge is not None:
            positions = line["position"] * dodge ** (index - (len(labels) - 1) / 2)
            panel.errorbar(
                positions, line["value"], error_lengths(line), markersize=7, capsize=3, **style
            )
            continue
        every = (index % MARKED_EVERY, MARKED_EVERY)  # markers of neighbours lie side by side
        panel.plot(line["position"], line["value"], markevery=every, markersize=5, **style)
        panel.fill_between(
            line["position"], line["low"], line["high"], color=look.colour, linewidth=0
        )
    if dodge is None:
        for band in panel.collections:
            band.set_alpha(BAND_OPACITY / len(panel.collections) ** 0.5)


def error_lengths(rows: pd.DataFrame) -> list[pd.Series]:
    """Return how far each interval reaches below and above its value."""
    return [rows["value"] - rows["low"], rows["high"] - rows["value"]]


def over_pi(panels: Sequence[Axes], values: pd.Series) -> None:
    """Let lines over π fill one range of all panels: bands that are much wider are cut."""
    lowest, highest = values.min(), values.max()
    margin = MARGIN * (highest - lowest)
    bottoms, tops = zip(*(panel.get_ylim() for panel in panels), strict=True)
    for panel in panels:
        panel.set_xlabel("Retaining probability π")
        panel.set_xlim(0, 1)
        if margin > 0:
            panel.set_ylim(max(min(bottoms), lowest - margin), min(max(tops), highest + margin))


def over_layers(panel: Axes, numbers: pd.Series, label: str) -> None:
    """Space numbers of layers by their ratio, as they are usually doubled, and mark those."""
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(FixedLocator(sorted(numbers.dropna().unique())))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(ScalarFormatter())
    panel.set_xlabel(label)


# Dots -------------------------------------------------------------------------------------------


def dots(panel: Axes, rows: pd.DataFrame, labels: Mapping[str, str], label: str) -> None:
    """Draw each method's number as a dot on its 95 % interval, one below the other.

    Args:
        panel: where.
        rows: results, one for each method, in order from the top.
        labels: of the methods.
        label: of the x axis.
    """
    looks = line_styles(labels)
    for index, row in enumerate(rows.itertuples()):
        look = looks[row.method]
        panel.plot([row.low, row.high], [index, index], color=look.colour, linewidth=2.5)
        panel.plot(row.value, index, markersize=8, **look.point)
    named = [or_no_value(labels[row.method], row.value) for row in rows.itertuples()]
    panel.set_yticks(range(len(rows)), named)
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.set_xlabel(label)
    panel.set_ylabel("")


def scatter(panel: Axes, across: pd.DataFrame, up: pd.DataFrame, labels: Mapping[str, str]) -> None:
    """Draw each method at two numbers, with the 95 % intervals of both.

    Args:
        panel: where.
        across, up: results, at most one for each method.
        labels: of the methods.
    """
    looks = line_styles(labels)
    across, up = (rows.set_index("method").reindex(list(labels)) for rows in (across, up))
    for name, label in labels.items():
        x, y, look = across.loc[name], up.loc[name], looks[name]
        panel.plot([x["low"], x["high"]], [y["value"]] * 2, color=look.colour, linewidth=1.2)
        panel.plot([x["value"]] * 2, [y["low"], y["high"]], color=look.colour, linewidth=1.2)
        named = or_no_value(label, x["value"], y["value"])
        style = {**look.point, "linestyle": "none", "markersize": 8, "label": named}
        panel.plot(x["value"], y["value"], **style)


# Heatmaps ---------------------------------------------------------------------------------------


def lower_triangle(rows: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Return the number of every two names, (M, M): the second's line, the first's column.

    Args:
        rows: results, one for each pair of `method` and `other`.
        names: of lines and columns.
    """
    wide = rows.pivot(index="other", columns="method", values="value")
    return wide.reindex(index=list(names), columns=list(names)).to_numpy(dtype=float)


def heatmap(panel: Axes, matrix: np.ndarray, look: Look, numbers: bool = True) -> None:
    """Colour the cells that have a value, and write it into them."""
    colours, lowest, highest = look
    seaborn.heatmap(
        matrix,
        ax=panel,
        cmap=colours,
        vmin=lowest,
        vmax=highest,
        square=True,
        cbar=False,
        linewidths=0.5,
        xticklabels=[],
        yticklabels=[],
        annot=np.vectorize(_short, otypes=[object])(matrix) if numbers else None,
        fmt="",
        annot_kws={"size": NUMBER_SIZE},
    )
    panel.grid(visible=False)


def _short(value: float) -> str:
    """Return a number of at most 1 in size as a short text: `.53`, `−.07`, `1.0`."""
    text = f"{round(value, 2) + 0.0:.2f}"  # no negative zero
    return signed(text.replace("1.00", "1.0").replace("0.", "."))


def mark_gaps(panel: Axes, gaps: np.ndarray) -> None:
    """Write a dash into the cells that lack a value, the diagonal left out."""
    for line, column in np.argwhere(gaps & ~np.eye(len(gaps), dtype=bool)):
        panel.text(column + 0.5, line + 0.5, NOTHING, ha="center", va="center", size=NUMBER_SIZE)


def name_cells(
    panel: Axes, columns: Sequence[str], lines: Sequence[str], rotation: int = 90
) -> None:
    """Write names below the columns and beside the lines; an empty list leaves them out."""
    panel.set_anchor("W")  # the layout leaves room for names left of the space that it divides
    panel.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=rotation, fontsize="small")
    panel.set_yticks(np.arange(len(lines)) + 0.5, lines, rotation=0, fontsize="small")


def add_scale(panel: Axes, look: Look, label: str) -> None:
    """Fill a panel with a colour map's scale."""
    colours, lowest, highest = look
    mappable = ScalarMappable(Normalize(lowest, highest), colours)
    assert panel.figure is not None
    scale = panel.figure.colorbar(mappable, cax=panel, orientation="horizontal")
    scale.set_label(label, fontsize="small")
    scale.set_ticks(np.linspace(lowest, highest, 5).tolist())
    scale.ax.tick_params(labelsize="small")
