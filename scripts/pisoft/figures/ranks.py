"""The certainty of the ranking: ranks over resamples, and which methods differ."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

import networkx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from pisoft.figures.panels import GREY, LINE_HEIGHT, dots, draw, heading, n_text
from pisoft.formatting import NOTHING
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, LEVEL, METRICS
from pisoft.statistics.results import select
from pisoft.views.titles import by_metric
from pisoft.views.view import View, display

PARTS = ["rank", "mean_rank", "best_share"]
MOST_TICKS = 6  # of ranks
CHARACTERS = 45  # of a line below a panel
SHARES, BARS = 0.25, (0.5, 0.85)  # inches beside a panel: where shares and bars stand


@display(
    title="How certain is the ranking?", by=("protocol", "model"), reads=("ranks", "comparisons")
)
def plot(view: View) -> Figure:
    """Draw the ranks by both metrics, for the mean over datasets.

    Dots are ranks with 95 % intervals over resamples; beside them is the share of resamples in
    which a method is best. As in a critical-difference diagram (Demšar, 2006), a bar joins methods
    (its circles) of which no two differ significantly.
    """
    ranks = view.results("ranks", metric=AUC_METRICS)
    averages = select(ranks.rows, dataset=AVERAGE)
    pairs = view.results_if_any("comparisons").select(dataset=AVERAGE)  # of one method: none

    def fill(panel: Axes, metric: str) -> None:
        rows, tests = (select(all_rows, metric=metric) for all_rows in (averages, pairs.rows))
        _draw_ranks(panel, rows, tests, ranks.methods)

    panels = {METRICS[metric].label: metric for metric in AUC_METRICS}
    height = 2.0 + LINE_HEIGHT * max(2, len(ranks.methods))
    findings = {}
    for metric in AUC_METRICS:
        rows = select(averages, part="best_share", metric=metric).dropna(subset="value")
        most = rows["value"].max()
        names = " and ".join(ranks.methods[name] for name in rows["method"][rows["value"] == most])
        if names:
            findings[metric] = f"{names} ({100 * most:.0f}\N{NO-BREAK SPACE}%)"
    message = f"Most often best: {by_metric(findings)}" if findings else ""
    title = heading(view, n_text(averages), message=message)
    return draw(title, fill, panels, height, legend=False)


def _draw_ranks(
    panel: Axes, rows: pd.DataFrame, pairs: pd.DataFrame, methods: Mapping[str, str]
) -> None:
    """Draw the ranks by one metric, best on top, with shares of first ranks and bars."""
    panel.set_title(panel.get_ylabel(), fontsize="medium", pad=14)
    numbers = select(rows, part=PARTS).pivot(index="method", columns="part", values="value")
    wide = numbers.reindex([*methods], columns=PARTS).dropna(subset="rank")
    order = wide.sort_values(["rank", "mean_rank"], kind="stable").index
    missing = [label for name, label in methods.items() if name not in order]
    ordered = select(rows, part="rank").set_index("method").reindex(order)
    label = "Rank, 95 % interval (← 1 is best)\n≈: no significant difference"
    dots(panel, ordered.rename_axis("method").reset_index(), methods, label)
    if missing:
        note = f"No rank: {', '.join(missing)}" if len(order) else "No method has a rank"
        panel.set_xlabel("\n".join([label, *wrap(note, CHARACTERS)]))
    panel.set_xlim(0.5, max(2, len(order)) + 0.5)
    panel.xaxis.set_major_locator(MaxNLocator(MOST_TICKS, integer=True, steps=[1, 2, 5, 10]))
    for line, share in enumerate(wide["best_share"][order]):
        text = NOTHING if np.isnan(share) else f"{100 * share:.0f} %"
        panel.text(1, line, text, ha="center", va="center", **_beside(panel, SHARES))
    panel.text(1, -1, "best in", ha="center", va="center", **_beside(panel, SHARES))
    joined = groups(pairs, [*order])
    for inches, group in zip(np.linspace(*BARS, len(joined)), joined, strict=True):
        heights = [order.get_loc(name) for name in group]
        style: dict[str, Any] = {"color": GREY, "marker": "o", "markersize": 2.5, "linewidth": 1.2}
        panel.plot([1] * len(group), heights, **style, **_beside(panel, inches))
    if joined:  # the layout leaves room for texts, not for what is drawn beside a panel
        panel.text(1, -1, "≈", ha="right", va="center", **_beside(panel, BARS[1]))


def _beside(panel: Axes, inches: float) -> dict[str, Any]:
    """Return the transform that puts x = 1 this far to the right of a panel."""
    assert panel.figure is not None
    shift = ScaledTranslation(inches, 0, panel.figure.dpi_scale_trans)
    return {"transform": panel.get_yaxis_transform() + shift, "clip_on": False}


def groups(pairs: pd.DataFrame, order: list[str]) -> list[list[str]]:
    """Return the maximal groups of methods without a significant difference, in `order`.

    `pairs` are tests of `method` against `other`; a pair without a p-value counts as not different.
    """
    graph = networkx.complete_graph(order)
    differ = pairs[pairs["p_adjusted"] < LEVEL]
    graph.remove_edges_from(differ[["method", "other"]].itertuples(index=False, name=None))
    cliques = [sorted(clique, key=order.index) for clique in networkx.find_cliques(graph)]
    cliques = [clique for clique in cliques if len(clique) > 1]
    return sorted(cliques, key=lambda clique: [*map(order.index, clique)])
