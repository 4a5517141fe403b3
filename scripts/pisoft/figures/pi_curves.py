"""π-Soft curves, the methods that matter in colour: the best, the paper's, random, the worst.

All others are grey; :mod:`pisoft.figures.pi_curves_all` names every method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.optimize import isotonic_regression

from pisoft.displays import display
from pisoft.figures.lines import (
    PI_SOFT,
    begin_at_zero,
    draw_curve,
    finish_panel,
    sample_text,
    share_range,
    with_bands,
)
from pisoft.figures.style import line_styles, theme
from pisoft.statistics.metrics import CONTROL, PROPOSED
from pisoft.statistics.reading import present
from pisoft.statistics.standing import standing
from pisoft.views import View

MOST_LEADERS = 4  # of the best and those not told apart from them, that are in colour
OTHERS = "#D4D4D4"
LABEL_HEIGHT = 0.064  # in panels, line spacing included
KEYS, LABELS = 1.05, 1.075  # where markers stand and labels begin, in panels


@display(
    title="Curves over the retaining probability",
    by=("protocol", "model", "dataset"),
    reads={"soft_curves": "summary/soft_curves", "statistics": "summary/statistics"},
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol, model and dataset."""
    files, settings, cell = view.files, view.settings, view.cell
    curves, statistics = files.rows("soft_curves", **cell), files.rows("statistics", **cell)
    methods = present(settings.methods, curves)
    return plot_pi_curves(curves, statistics, methods, settings.where(cell))


def plot_pi_curves(
    curves: pd.DataFrame, statistics: pd.DataFrame, methods: Mapping[str, str], where: str
) -> Figure:
    """Draw π-Soft-NS and π-Soft-NC over the retaining probability, few methods in colour.

    Each panel colours those of its own AUC, see :func:`highlighted`, and names them at their line's
    end: the best in bold, ≈ behind those not told apart from it, as in tables. Their bands are 95 %
    confidence intervals of the mean over samples (Student's t).

    Args:
        curves: `soft_curves` rows of one protocol, model and dataset.
        statistics: `statistics` rows of the same; they may have methods without a curve.
        methods: label of each method that has curves.
        where: model, dataset and protocol, for the title.
    """
    shown = with_bands(curves)
    with theme():
        figure = Figure(figsize=(11.5, 4.6), layout="constrained")
        axes = figure.subplots(1, len(PI_SOFT))
        found = {}
        for panel, (metric, label) in zip(axes, PI_SOFT.items(), strict=True):
            of_metric = statistics[statistics["metric"] == f"auc_{metric}"].set_index("method")
            found[metric] = highlighted(of_metric, methods)
            _draw_lines(panel, shown[shown["metric"] == metric], methods, found[metric])
            finish_panel(panel, label)
            panel.set_title(found[metric].in_words(), fontsize="small")
        share_range(axes, curves["mean"])
        begin_at_zero(axes, curves["mean"])
        for panel, (metric, chosen) in zip(axes, found.items(), strict=True):
            _name_lines(panel, curves[curves["metric"] == metric], methods, chosen)
        figure.suptitle(f"{where} · {sample_text(curves)}", fontsize="medium")
    return figure


@dataclass(frozen=True)
class Highlighted:
    """Methods in colour, and what the tests say of them.

    Attributes:
        methods: those in colour.
        best: the best of all methods, several if they are equal.
        tied: those not told apart from the best.
        compared: how many methods have a value.
    """

    methods: Sequence[str]
    best: Sequence[str]
    tied: Sequence[str]
    compared: int

    def in_words(self) -> str:
        """Say how many methods lead, and how many of these are in colour."""
        leading = {*self.best, *self.tied}
        coloured = leading.intersection(self.methods)
        said = f"Best or not told apart: {len(leading)} of {self.compared} methods"
        return said if len(coloured) == len(leading) else f"{said}, {len(coloured)} in colour"


def highlighted(rows: pd.DataFrame, methods: Mapping[str, str]) -> Highlighted:
    """Choose the methods in colour by the AUC of one metric.

    They are the best and those not told apart from it, of many the first :data:`MOST_LEADERS`; the
    paper's own; random scores; the lowest.

    Args:
        rows: `statistics` rows of one metric and dataset, by method.
        methods: those that have curves.
    """
    best, tied = standing(rows)
    values = rows["value"].dropna().sort_values(ascending=False, kind="stable")
    drawn = [name for name in values.index if name in methods]
    leading = [name for name in drawn if name in (*best, *tied)][:MOST_LEADERS]
    wanted = {*leading, *PROPOSED, CONTROL, *drawn[-1:]}
    return Highlighted([name for name in drawn if name in wanted], best, tied, len(values))


def _draw_lines(
    panel: Axes, curves: pd.DataFrame, methods: Mapping[str, str], chosen: Highlighted
) -> None:
    """Draw the others in grey, and on top of them those in colour with their bands."""
    styles = line_styles(methods)
    for position, method in enumerate(methods):
        curve = curves[curves["method"] == method].sort_values("pi")
        if method in chosen.methods:
            draw_curve(panel, curve, styles[method], position)
        else:
            panel.plot(curve["pi"], curve["mean"], color=OTHERS, linewidth=1, zorder=1)


def _name_lines(
    panel: Axes, curves: pd.DataFrame, methods: Mapping[str, str], chosen: Highlighted
) -> None:
    """Write the names of the lines in colour beside the panel, the best on top, joined to the ends.

    All lines meet at π = 1, so that the order by AUC says more than that of the ends.
    """
    styles = line_styles(methods)
    last = curves.dropna(subset="mean").sort_values("pi").groupby("method").last()
    upwards = list(reversed(chosen.methods))
    ends = last.loc[upwards, ["pi", "mean"]].to_numpy(dtype=float)
    low, high = panel.get_ylim()
    others, *places = spread(np.r_[0, (ends[:, 1] - low) / (high - low)], LABEL_HEIGHT)
    for method, end, place in zip(upwards, ends, places, strict=True):
        style = styles[method]
        line = {"arrowstyle": "-", "color": style.colour, "shrinkA": 0, "shrinkB": 0}
        beside = (KEYS, place)
        panel.annotate("", xy=end, xytext=beside, textcoords="axes fraction", arrowprops=line)
        text = _write_name(panel, place, style.colour, style.marker, methods[method])
        if method in chosen.best:
            text.set_fontweight("bold")
        if method in chosen.tied:
            text.set_text(f"{methods[method]} ≈")
    if len(last) > len(chosen.methods):
        _write_name(panel, others, OTHERS, "_", "others")


def _write_name(panel: Axes, place: float, colour: str, marker: str, name: str) -> Text:
    """Write a name beside the panel, behind the marker of its line."""
    beside = panel.transAxes
    panel.plot(
        KEYS, place, color=colour, marker=marker, markersize=5, transform=beside, clip_on=False
    )
    return panel.text(LABELS, place, name, transform=beside, va="center", fontsize="small")


def spread(places: np.ndarray, gap: float) -> np.ndarray:
    """Return the places nearest to the given ones, in least squares, that rise by a gap at least.

    Args:
        places: from 0 to 1, in the order that is kept.
        gap: the least difference of neighbours.

    Returns:
        As many places, from 0 to 1 if so many gaps fit in there.
    """
    steps = gap * np.arange(places.size)
    moved = isotonic_regression(places - steps).x
    return np.clip(moved, 0, max(0, 1 - steps[-1])) + steps
