"""The kinds of panels that figures are made of: lines, dots and heatmaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import fill as wrapped
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from pisoft.figures.style import (
    LineStyle,
    NotebookFigure,
    abreast,
    line_styles,
    share,
    theme,
    width,
)
from pisoft.formatting import NOTHING, signed
from pisoft.views.view import View

GREY = "#4D4D4D"
MARKERS = 6  # on a line; one on each point of the grid would hide it
BAND_OPACITY = 0.22  # of a single band; many lie on top of one another
MARGIN = 0.25  # above and below the lines, in spans of the lines
LEGEND_CHARACTERS = 110  # that fit side by side below the panels of a full page
HANDLE_CHARACTERS = 9  # width of a line sample and its gaps
TITLE_CHARACTERS = 88  # of a line on a full page
TITLE_LINES = 2  # for which figures have room
TEXT_HEIGHT = 0.18  # inches per line of a title or legend
FRAME = 1.0  # inches, of title and legend
LINE_HEIGHT = 0.19  # inches per dot
NUMBER_SIZE = 5.5  # points, in a heatmap
Look = tuple[str, float, float]  # a colour map that any colour vision can read, and its range
TAU: Look = ("RdBu", -1.0, 1.0)  # blue agrees
OVERLAP: Look = ("Purples", 0.0, 1.0)
TAU_MEANING = "Kendall's τ-b\n(1: same order, 0: unrelated, −1: opposite)"
Shown = TypeVar("Shown")  # what a panel shows


def draw(
    title: str,
    fill: Callable[[Axes, Shown], None],
    panels: Mapping[str, Shown],
    height: float,
    legend: bool = True,
    rows: Sequence[Sequence[str]] = (),
    **layout: Any,
) -> Figure:
    """Return a figure of panels side by side, with labels at the y axes and one legend below.

    On a narrow page, panels fill several rows.

    Args:
        title: title above the panels; see :func:`heading`.
        fill: draws the content of a panel on its axes.
        panels: content of each panel, by label.
        height: height in inches; without `rows`, of one row.
        legend: whether there is a legend; lines may be named beside the panels instead.
        rows: labels of the panels in each row, see :func:`in_rows`; `.` is an empty place. By
            default, all panels are in one row.
        layout: arguments of :meth:`matplotlib.figure.Figure.subplot_mosaic`.
    """
    with theme():
        if not rows:
            rows = in_rows(panels, len(panels))
            height += (len(rows) - 1) * (height - FRAME)
        figure = NotebookFigure(figsize=(width(), height), layout="constrained")
        most = max(map(len, rows))
        mosaic: list[Any] = [np.repeat(row, most // len(row)).tolist() for row in rows]
        axes: dict[str, Axes] = figure.subplot_mosaic(mosaic, **layout)
        for label, content in panels.items():
            axes[label].set_ylabel(label)
            seaborn.despine(ax=axes[label])
            fill(axes[label], content)
        title_above(figure, title)
        if legend:
            legend_below(figure, figure.axes[0].get_legend_handles_labels()[0])
        if share() < 1:
            figure.draw_without_rendering()  # ticks of narrow panels depend on the layout
    return figure


def heading(view: View, *more: str, message: str = "") -> str:
    """Return the title of a figure: its message or subject, and below the cell and `n = 98` etc."""
    lines = filter(None, (message or view.title, " · ".join((view.where, *more))))
    return "\n".join(in_width(line) for line in lines)


def in_width(text: str) -> str:
    """Wrap a text to the width of the page."""
    unbroken = text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    lines = wrapped(unbroken, int(TITLE_CHARACTERS * share()), break_on_hyphens=False)
    return lines.replace("\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}", " = ")


def title_above(figure: Figure, title: str) -> None:
    """Write a title above the panels; on a narrow page it may need more room."""
    figure.suptitle(title)
    if share() < 1:
        _make_room(figure, len(title.splitlines()) - TITLE_LINES)


def _make_room(figure: Figure, lines: int) -> None:
    figure.set_figheight(figure.get_figheight() + TEXT_HEIGHT * max(0, lines))


def in_rows(names: Iterable[str], columns: int) -> list[list[str]]:
    """Arrange panels in rows, see :func:`draw`; empty places fill the last row.

    `columns` is the number on a full page; a narrow page has fewer.
    """
    names, columns = [*names], abreast(columns)
    names += "." * (-len(names) % columns)
    return [names[first : first + columns] for first in range(0, len(names), columns)]


def legend_below(figure: Figure, handles: Sequence[Any]) -> None:
    """Draw the legend below the panels, in as many columns as fit the longest label."""
    longest = max((len(handle.get_label()) for handle in handles), default=0)
    most = LEGEND_CHARACTERS // (longest + HANDLE_CHARACTERS)
    full, columns = (max(1, min(len(handles), int(n))) for n in (most, most * share()))
    _make_room(figure, -(-len(handles) // columns) - -(-len(handles) // full))
    if handles:
        style: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        figure.legend(handles=handles, handlelength=3, **style)


def n_text(rows: pd.DataFrame) -> str:
    """Return `n = 98`, or a range if n differs between values."""
    counts = rows.loc[rows["n"] > 0, "n"]
    if counts.empty:
        return "n = 0"
    ends = dict.fromkeys(f"{n:.0f}" for n in (counts.min(), counts.max()))
    return "n = " + "\N{EN DASH}".join(ends)


def or_no_value(label: str, value: float) -> str:
    """Return a label, marked if its value is missing."""
    return f"{label} (no value)" if np.isnan(value) else label


# Lines ------------------------------------------------------------------------------------------


def lines(
    panel: Axes,
    rows: pd.DataFrame,
    labels: Mapping[str, str],
    styles: Mapping[str, LineStyle] | None = None,
) -> None:
    """Draw a line over `position` for each method, with a band of 95 % intervals.

    `rows` need `method`, `position`, `value`, `low` and `high`. `labels` give the order of the
    legend; `styles` replace the usual styles of the methods.
    """
    looks = styles or line_styles(labels)
    for index, (name, label) in enumerate(labels.items()):
        line, look = rows[rows["method"] == name].sort_values("position"), looks[name]
        every = max(1, len(line) // MARKERS)
        panel.plot(
            line["position"],
            line["value"],
            markevery=(index % every, every),  # markers of neighbours lie side by side
            markersize=4,
            linewidth=1.2,
            label=or_no_value(label, line["value"].max()),
            **look.point | look.line,
        )
        draw_band(panel, line, look.colour, BAND_OPACITY / len(labels) ** 0.5)


def draw_band(panel: Axes, line: pd.DataFrame, colour: str, opacity: float = BAND_OPACITY) -> None:
    """Draw the intervals of a line."""
    ends = line["position"], line["low"], line["high"]
    panel.fill_between(*ends, color=colour, linewidth=0, alpha=opacity)


def over_pi(panels: Sequence[Axes], values: pd.Series) -> None:
    """Set a common range of all panels that lines over π fill; much wider bands are cut."""
    lowest, highest = values.min(), values.max()
    margin = MARGIN * (highest - lowest)
    bottoms, tops = zip(*(panel.get_ylim() for panel in panels), strict=True)
    for panel in panels:
        panel.set_xlabel("Retaining probability π")
        panel.set_xlim(0, 1)
        if margin > 0:
            panel.set_ylim(max(min(bottoms), lowest - margin), min(max(tops), highest + margin))


def over_doublings(panel: Axes, numbers: pd.Series) -> None:
    """Scale an axis of usually doubling numbers logarithmically, with ticks at these."""
    panel.set_xscale("log", base=2)
    panel.set_xticks([*numbers.dropna().unique()])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(ScalarFormatter())


# Dots -------------------------------------------------------------------------------------------


def dots(panel: Axes, rows: pd.DataFrame, labels: Mapping[str, str], label: str) -> None:
    """Draw `rows` from the top as dots on their 95 % intervals; `label` names the x axis."""
    looks = line_styles(labels)
    for index, row in enumerate(rows.itertuples()):
        look = looks[row.method]
        panel.plot([row.low, row.high], [index, index], color=look.colour, linewidth=1.8)
        panel.plot(row.value, index, markersize=5, **look.point)
        if np.isnan(row.value):
            beside: dict[str, Any] = {"transform": panel.get_yaxis_transform(), "va": "center"}
            panel.text(0.5, index, "no value", ha="center", style="italic", **beside)
    panel.set_yticks(range(len(rows)), [labels[method] for method in rows["method"]])
    panel.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    panel.set_xlabel(label)
    panel.set_ylabel("")


def dot_panels(
    view: View,
    results: Mapping[str, pd.DataFrame],
    labels: Mapping[str, str],
    n: str,
    highest_first: bool = False,
    message: str = "",
) -> Figure:
    """Return panels of dots (:func:`dots`), methods in the order of the first panel.

    `results` are by the label of each panel's x axis. The lowest value is on top, or the highest.
    """
    first = next(iter(results.values())).set_index("method")["value"].reindex([*labels])
    order = first.sort_values(ascending=not highest_first, kind="stable").index

    def fill(panel: Axes, label: str) -> None:
        rows = results[label].set_index("method").reindex(order).rename_axis("method")
        dots(panel, rows.reset_index(), labels, label)

    title, height = heading(view, n, message=message), 1.3 + LINE_HEIGHT * len(order)
    return draw(title, fill, {label: label for label in results}, height, legend=False, sharey=True)


# Heatmaps ---------------------------------------------------------------------------------------


def median_tau(what: str, taus: pd.Series | np.ndarray) -> str:
    """Return the message of a heatmap of agreement; empty without values."""
    values = np.asarray(taus, dtype=float)
    values = values[~np.isnan(values)]
    if not values.size:
        return ""
    return f"{what} with a median agreement of τ = {signed(f'{np.median(values):z.2f}')}"


def lower_triangle(rows: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Return the numbers of every two names, (M, M): rows are `other`, columns `method`."""
    wide = rows.pivot(index="other", columns="method", values="value")
    return wide.reindex(index=list(names), columns=list(names)).to_numpy(dtype=float)


def heatmap(panel: Axes, matrix: np.ndarray, look: Look, numbers: bool = True) -> None:
    """Colour the cells that have a value and write it into them."""
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
    """Return a number in [−1, 1] as a short text: `.53`, `−.07`, `1.0`."""
    return signed(f"{value:z.2f}".replace("1.00", "1.0").replace("0.", "."))


def mark_gaps(panel: Axes, gaps: np.ndarray) -> None:
    """Write a dash into cells without a value."""
    for line, column in np.argwhere(gaps):
        panel.text(column + 0.5, line + 0.5, NOTHING, ha="center", va="center", size=NUMBER_SIZE)


def name_cells(
    panel: Axes, columns: Sequence[str], lines: Sequence[str], rotation: int = 90
) -> None:
    """Write names below the columns and beside the rows; an empty list omits them."""
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
