"""π-Soft curves, the methods that matter in colour: the best, the paper's, random, the worst.

All others are grey; :mod:`pisoft.figures.pi_curves_all` names every method.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from pisoft.figures.panels import draw, lines, n_text
from pisoft.figures.pi_curves_all import of_one_range
from pisoft.figures.style import line_styles, theme
from pisoft.statistics.metrics import CONTROL, CURVE_METRICS, LEVEL, PROPOSED
from pisoft.statistics.results import select
from pisoft.views.registry import display
from pisoft.views.view import View

MOST_LEADERS = 4  # of the best and those not significantly different from them, that are in colour
OTHERS = "#D4D4D4"
LABEL_HEIGHT = 0.064  # in panels, line spacing included
KEYS, LABELS = 1.05, 1.075  # where markers stand and labels begin, in panels


@display(
    title="Curves over the retaining probability",
    by=("protocol", "model", "dataset"),
    reads=("curves", "statistics"),
)
def plot(view: View) -> Figure:
    """Draw π-Soft-NS and π-Soft-NC over the retaining probability, few methods in colour.

    Each panel names those in colour (:func:`standings`) at their line's end: the best in bold, ≈
    behind those not significantly different from it. Bands are 95 % intervals (Student's t).
    """
    curves, statistics = view.results("curves"), view.results("statistics")
    parts = {
        label: {
            "rows": select(curves.rows, metric=metric, method=curves.methods),
            "areas": standings(select(statistics.rows, metric=f"auc_{metric}"), curves.methods),
            "methods": curves.methods,
        }
        for metric, label in CURVE_METRICS.items()
    }
    panels = {label: partial(_draw_lines, **of_metric) for label, of_metric in parts.items()}
    title = f"{view.where} · {n_text(curves.rows)}"
    figure = of_one_range(draw(title, panels, (11.5, 4.6), legend=False), curves.rows["value"])
    with theme():
        for panel, of_metric in zip(figure.axes, parts.values(), strict=True):
            _name_lines(panel, **of_metric)
    return figure


def standings(rows: pd.DataFrame, methods: Collection[str]) -> pd.DataFrame:
    """Return the methods with a number, best first: `best`, `tied` with it, and `coloured`.

    In colour are, of those with curves, the best and those not significantly different from it, of
    many the first :data:`MOST_LEADERS`; the paper's own; random scores; the lowest.
    """
    rows = rows.dropna(subset="value").set_index("method")
    rows = rows.sort_values("value", ascending=False, kind="stable")
    best = rows["rank"] == rows["rank"].min()
    tied = ~best & (rows["p_adjusted"] >= LEVEL)
    drawn = rows.index[rows.index.isin(methods)]
    leading = drawn[(best | tied)[drawn]][:MOST_LEADERS]
    coloured = drawn.intersection([*leading, *PROPOSED, CONTROL, *drawn[-1:]])
    return pd.DataFrame({"best": best, "tied": tied, "coloured": rows.index.isin(coloured)})


def _draw_lines(
    panel: Axes, rows: pd.DataFrame, areas: pd.DataFrame, methods: Mapping[str, str]
) -> None:
    """Draw the others in grey, and on top of them those in colour with their bands."""
    coloured = areas.index[areas["coloured"]]
    grey = rows[~rows["method"].isin(coloured)].sort_values("position")
    for _, line in grey.groupby("method"):
        panel.plot(line["position"], line["value"], color=OTHERS, linewidth=1, zorder=1)
    labels = {name: label for name, label in methods.items() if name in coloured}
    lines(panel, rows, labels, styles=line_styles(methods))
    leading = areas["best"] | areas["tied"]
    in_colour = leading & areas["coloured"]
    title = f"Best or tied (≈): {leading.sum()} of {len(areas)} methods"
    title += "" if in_colour.equals(leading) else f", {in_colour.sum()} in colour"
    panel.set_title(title, fontsize="small")


def _name_lines(
    panel: Axes, rows: pd.DataFrame, areas: pd.DataFrame, methods: Mapping[str, str]
) -> None:
    """Write the names of the lines in colour beside the panel, the best on top, joined to the ends.

    All lines meet at π = 1, so that the order by AUC says more than that of the ends.
    """
    looks = line_styles(methods)
    last = rows.dropna(subset="value").sort_values("position").groupby("method").last()
    upwards = areas[areas["coloured"]][::-1]
    low, high = panel.get_ylim()
    heights = (last.loc[upwards.index, "value"] - low) / (high - low)
    others, *places = spread(np.r_[0, heights], LABEL_HEIGHT)
    beside: dict[str, Any] = {"transform": panel.transAxes, "clip_on": False}
    key: dict[str, Any] = {"markersize": 5, **beside}
    label: dict[str, Any] = {"va": "center", "fontsize": "small", **beside}
    for area, place in zip(upwards.itertuples(), places, strict=True):
        look, end = looks[area.Index], last.loc[area.Index, ["position", "value"]]
        arrow = {"arrowstyle": "-", "color": look.colour, "shrinkA": 0, "shrinkB": 0}
        xy = {"xy": end, "xytext": (KEYS, place), "textcoords": "axes fraction"}
        panel.annotate("", arrowprops=arrow, **xy)
        panel.plot(KEYS, place, **look.point, **key)
        weight = "bold" if area.best else "normal"
        panel.text(LABELS, place, methods[area.Index] + " ≈" * area.tied, weight=weight, **label)
    if len(last) > len(upwards):
        panel.plot(KEYS, others, color=OTHERS, marker="_", **key)
        panel.text(LABELS, others, "others", **label)


def spread(places: np.ndarray, gap: float) -> np.ndarray:
    """Return the places nearest to the given ones, in least squares, that rise by a gap at least.

    Places are from 0 to 1, if so many gaps fit in there, and keep their order.
    """
    steps = gap * np.arange(places.size)
    moved = isotonic_regression(places - steps).x
    return np.clip(moved, 0, max(0, 1 - steps[-1])) + steps
