"""How sure the ranking of methods is: ranks over resamples, and critical differences."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, dots, draw, n_text
from pisoft.figures.style import line_styles
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, LEVEL, METRICS
from pisoft.statistics.results import select
from pisoft.views.registry import display
from pisoft.views.view import View

WIDTH = 13.0  # inches
LINE = 0.26  # inches per method or bar
MOST_TICKS = 10  # with a number each; of more ranks, every other one has one
LABEL_GAP = 0.15  # ranks between a label, the line that leads to it, and the first or last rank


@display(
    title="Ranks and critical differences",
    by=("protocol", "model"),
    reads=("ranks", "comparisons"),
)
def plot(view: View) -> Figure:
    """Draw the ranks by π-Soft-NS above and by π-Soft-NC below, for the mean over datasets.

    Left: each method's rank with its 95 % interval over resamples of the samples, and the share of
    resamples in which it is best. Right: critical-difference diagrams of the mean ranks over
    resamples (:func:`scikit_posthocs.critical_difference_diagram`); a bar joins the methods whose
    circles it holds, no two of which differ significantly or were not tested.
    """
    ranks = view.results("ranks", metric=AUC_METRICS)
    averages = select(ranks.rows, dataset=AVERAGE)
    pairs = view.results_if_any("comparisons").select(dataset=AVERAGE)  # of one method: none
    panels = {}
    for metric in AUC_METRICS:
        rows = select(averages, metric=metric)
        mean_ranks = select(rows, part="mean_rank").set_index("method")["value"]
        p_values = _p_values(select(pairs.rows, metric=metric), mean_ranks.index)
        common = {"mean_ranks": mean_ranks, "methods": ranks.methods}
        panels[METRICS[metric].label] = partial(_draw_intervals, rows=rows, **common)
        panels[metric] = partial(_draw_differences, p_values=p_values, **common)
    title = f"{view.heading} · {n_text(averages)}"
    figure = draw(title, panels, (WIDTH, WIDTH), legend=False, columns=2)
    lowest = min(text.get_position()[1] for panel in figure.axes[1::2] for text in panel.texts)
    lines = max(len(ranks.methods), round(-lowest))
    figure.set_figheight(LINE * (lines + 5) * len(AUC_METRICS))
    figure.set_layout_engine("constrained", h_pad=LINE / 2)
    for panel in figure.axes[1::2]:
        panel.set_ylim(-lines - 0.5, 0.5)
    return figure


def _p_values(pairs: pd.DataFrame, methods: pd.Index) -> pd.DataFrame:
    """Return the corrected p-value of every two methods, (M, M); 1 where they were not tested."""
    wide = pairs.pivot(index="method", columns="other", values="p_adjusted")
    matrix = wide.reindex(index=methods, columns=methods).astype(float)
    return matrix.fillna(matrix.T).fillna(1.0)


def _draw_intervals(
    panel: Axes, rows: pd.DataFrame, mean_ranks: pd.Series, methods: Mapping[str, str]
) -> None:
    """Draw each method's rank with its interval, the best first, and write how often it is best."""
    panel.set_title(panel.get_ylabel().removeprefix("AUC "), fontsize="medium")
    ordered = select(rows, part="rank").set_index("method").reindex(list(methods))
    ordered = ordered.assign(mean_rank=mean_ranks)
    ordered = ordered.sort_values(["value", "mean_rank"], kind="stable").reset_index()
    dots(panel, ordered, methods, "Rank with 95 % interval over resamples (← 1 is best)")
    shares = select(rows, part="best_share").set_index("method")["value"]
    shares = shares.reindex(ordered["method"]).dropna()
    texts = ["best in", *(f"{100 * share:.0f} %" for share in shares)]
    beside = panel.get_yaxis_transform()  # x in parts of the panel's width
    for line, text in enumerate(texts, start=-1):
        panel.text(1.02, line, text, transform=beside, va="center", fontsize="small")
    _show_all_ranks(panel, len(methods))


def _draw_differences(
    panel: Axes, p_values: pd.DataFrame, mean_ranks: pd.Series, methods: Mapping[str, str]
) -> None:
    """Draw a critical-difference diagram, downwards from 0, 1 per line."""
    from scikit_posthocs import critical_difference_diagram

    names = list(mean_ranks.sort_values(kind="stable").index)
    if len(names) < 2:
        panel.set_axis_off()
        panel.text(0.5, 0.5, "fewer than two methods have a rank", transform=panel.transAxes)
        return
    looks = line_styles(methods)
    # Numbers stand for methods: the order of a set of names differs from process to process.
    numbers = range(len(names))
    drawn = critical_difference_diagram(
        pd.Series(mean_ranks[names].to_numpy(), index=numbers),
        pd.DataFrame(p_values.loc[names, names].to_numpy(), index=numbers, columns=numbers),
        alpha=LEVEL,
        ax=panel,
        color_palette={number: looks[names[number]].colour for number in numbers},
        label_fmt_left="{label}",
        label_fmt_right="{label}",
        marker_props={"marker": "None"},
        crossbar_props={"color": GREY, "marker": "o", "markersize": 4},
        label_props={"fontsize": "small"},
        text_h_margin=LABEL_GAP,
    )
    for text in drawn["labels"]:
        name = names[int(text.get_text())]
        text.set(text=f"{methods[name]} ({mean_ranks[name]:.1f})", color="black")
        text.set_x(text.get_position()[0] + (LABEL_GAP if text.get_ha() == "left" else -LABEL_GAP))
        panel.plot(mean_ranks[name], 0, markersize=8, **looks[name].point)
    panel.grid(visible=False)
    panel.spines["top"].set_visible(True)
    _show_all_ranks(panel, len(methods))
    panel.xaxis.set_label_position("top")
    panel.set_xlabel("Mean rank over resamples (← 1 is best)\nbars: not significantly different")


def _show_all_ranks(panel: Axes, methods: int) -> None:
    panel.set_xlim(0.5, max(2, methods) + 0.5)
    panel.set_xticks(range(1, max(2, methods) + 1, 1 if methods <= MOST_TICKS else 2))
