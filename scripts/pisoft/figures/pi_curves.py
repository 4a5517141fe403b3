"""π-Soft curves with the key methods in colour: the best, the paper's, random scores and the worst.

All others are grey; :mod:`pisoft.figures.pi_curves_all` names every method.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from pisoft.figures.panels import draw, heading, lines, n_text, over_pi
from pisoft.figures.style import line_styles
from pisoft.statistics.metrics import AUC_METRICS, CONTROL, CURVE_METRICS, LEVEL, PROPOSED
from pisoft.statistics.results import select
from pisoft.views.titles import by_metric
from pisoft.views.view import View, display

MOST_LEADERS = 4  # of the best and those not significantly different from them, that are in colour
OTHERS = "#D4D4D4"
LEGEND_BELOW = 0.4  # inches


@display(
    title="The best methods over the retaining probability π",
    by=("protocol", "model", "dataset"),
    reads=("curves", "statistics"),
)
def plot(view: View) -> Figure:
    """Draw π-Soft-NS and π-Soft-NC over the retaining probability, few methods in colour.

    Below each panel, coloured methods (:func:`standings`) are listed with their AUC, best first; ≈
    marks those not significantly different from the best. Bands are 95 % intervals (Student's t).
    """
    curves, statistics = view.results("curves"), view.results("statistics")

    areas = {
        metric: standings(select(statistics.rows, metric=metric), curves.methods)
        for metric in AUC_METRICS
    }
    best = {metric: rows.index[rows["best"]] for metric, rows in areas.items()}
    names = {
        metric: " and ".join(curves.methods[name] for name in one) for metric, one in best.items()
    }
    message = f"Highest AUC: {by_metric(names)}" if all(names.values()) else ""

    def fill(panel: Axes, metric: str) -> None:
        rows = select(curves.rows, metric=metric)
        _draw_lines(panel, rows, areas[f"auc_{metric}"], curves.methods)

    panels = {label: metric for metric, label in CURVE_METRICS.items()}
    title = heading(view, n_text(curves.rows), message=message)
    figure = draw(title, fill, panels, 4.6, legend=False)
    over_pi(figure.axes, curves.rows["value"])
    if not curves.rows["value"].min() < 0:  # π-Soft-NS may be, where it is not clamped
        for panel in figure.axes:
            panel.set_ylim(bottom=0)
    return figure


def standings(rows: pd.DataFrame, methods: Collection[str]) -> pd.DataFrame:
    """Return the methods with a curve and a number, best first, with three more columns.

    They are `best`, `tied` with the best, and `coloured`: the best, the first :data:`MOST_LEADERS`
    not significantly different from it, the paper's method, random scores, and the lowest.
    """
    rows = rows.dropna(subset="value").sort_values("value", ascending=False, kind="stable")
    best = rows["rank"] == rows["rank"].min()
    rows = rows.assign(best=best, tied=~best & (rows["p_adjusted"] >= LEVEL))
    rows = select(rows, method=methods).set_index("method")
    leading = rows.index[rows["best"] | rows["tied"]][:MOST_LEADERS]
    return rows.assign(coloured=rows.index.isin([*leading, *PROPOSED, CONTROL, *rows.index[-1:]]))


def _draw_lines(
    panel: Axes, rows: pd.DataFrame, areas: pd.DataFrame, methods: Mapping[str, str]
) -> None:
    """Draw grey lines, and on top of them the coloured ones with their bands."""
    labels = {
        row.Index: f"{row.value:.3f}  {methods[row.Index]}{' ≈' * row.tied}"
        for row in areas[areas["coloured"]].itertuples()
    }
    unnamed = rows[~rows["method"].isin(labels)].sort_values("position")
    for _, line in unnamed.groupby("method"):
        panel.plot(line["position"], line["value"], color=OTHERS, linewidth=0.8, zorder=1)
    lines(panel, rows, labels, styles=line_styles(methods))
    handles, _ = panel.get_legend_handles_labels()
    if len(areas) > len(labels):
        handles += panel.plot([], [], color=OTHERS, label=f"others: {len(areas) - len(labels)}")
    assert panel.figure is not None
    below = ScaledTranslation(0, -LEGEND_BELOW, panel.figure.dpi_scale_trans)
    options: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "frameon": False}
    options |= {"bbox_transform": panel.transAxes + below}
    legend = panel.legend(handles=handles, title="AUC", handlelength=3, alignment="left", **options)
    drawn = areas.loc[areas["coloured"], "best"]
    for text, best in zip(legend.get_texts(), drawn, strict=False):
        text.set_fontweight("bold" if best else "normal")
    leading = areas["best"] | areas["tied"]
    title = f"Best or not significantly different (≈): {leading.sum()} of {len(areas)}"
    panel.set_title(title, fontsize="small")
