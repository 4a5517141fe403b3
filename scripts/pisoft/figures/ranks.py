"""How sure the ranking of methods is: ranks over resamples, and critical differences."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from pisoft.displays import display
from pisoft.figures.panels import dots, n_text
from pisoft.figures.style import line_styles, theme
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.statistics.results import select
from pisoft.statistics.standing import LEVEL
from pisoft.views import View

WIDTH = 13.0  # inches
LINE = 0.26  # inches per method or bar
MOST_TICKS = 10  # with a number each; of more ranks, every other one has one
LABEL_GAP = 0.15  # ranks between a label and the line that leads to it


@display(
    title="Ranks and critical differences",
    by=("protocol", "model"),
    reads={"ranks": "summary/ranks", "comparisons": "summary/comparisons"},
)
def plot(view: View) -> Figure:
    """Draw the ranks by π-Soft-NS above and by π-Soft-NC below, for the mean over datasets.

    Left: each method's rank with its 95 % interval over resamples of the samples, and the share of
    resamples in which it is best. Right: critical-difference diagrams of the mean ranks over
    resamples (:func:`scikit_posthocs.critical_difference_diagram`); a bar joins the methods whose
    circles it holds, no two of which differ significantly or were not tested.
    """
    ranks = view.results("ranks", metric=AUC_METRICS)
    pairs = view.results_if_any("comparisons").select(dataset=AVERAGE)  # of one method: none
    methods = ranks.methods
    with theme():
        layout = ConstrainedLayoutEngine(h_pad=LINE / 2)
        figure = Figure(figsize=(WIDTH, WIDTH), layout=layout)
        panels = figure.subplots(len(AUC_METRICS), 2)
        heights = [len(methods)]  # in lines
        for (left, right), metric in zip(panels, AUC_METRICS, strict=True):
            left.set_title(METRICS[metric].label.removeprefix("AUC "), fontsize="medium")
            rows = select(ranks.rows, metric=metric, dataset=AVERAGE)
            _draw_intervals(left, rows, methods)
            mean_ranks = select(rows, part="mean_rank").set_index("method")["value"]
            p_values = _p_values(select(pairs.rows, metric=metric), mean_ranks.index)
            heights.append(_draw_differences(right, mean_ranks, p_values, methods))
        figure.set_figheight(LINE * (max(heights) + 5) * len(AUC_METRICS))
        for right in panels[:, 1]:
            right.set_ylim(-max(heights) - 0.5, 0.5)
        title = f"Ranks for the mean over datasets · {view.where}"
        counted = n_text(select(ranks.rows, part="rank", dataset=AVERAGE))
        figure.suptitle(f"{title} · {counted}", fontsize="medium")
    return figure


def _p_values(pairs: pd.DataFrame, methods: pd.Index) -> pd.DataFrame:
    """Return the corrected p-value of every two methods, (M, M); 1 where they were not tested."""
    wide = pairs.pivot(index="method", columns="other", values="p_adjusted")
    matrix = wide.reindex(index=methods, columns=methods).astype(float)
    return matrix.fillna(matrix.T).fillna(1.0)


def _draw_intervals(panel: Axes, rows: pd.DataFrame, methods: Mapping[str, str]) -> None:
    """Draw each method's rank with its interval, the best first, and write how often it is best."""
    parts = {
        part: select(rows, part=part).set_index("method").reindex(list(methods))
        for part in ("rank", "mean_rank", "best_share")
    }
    ordered = parts["rank"].assign(mean_rank=parts["mean_rank"]["value"])
    ordered = ordered.sort_values(["value", "mean_rank"], kind="stable")
    label = "Rank with 95 % interval over resamples (← 1 is best)"
    dots(panel, ordered.reset_index(), methods, label)
    beside = panel.get_yaxis_transform()  # x in parts of the panel's width
    shares = parts["best_share"]["value"][ordered.index].dropna()
    texts = ["best in", *(f"{100 * share:.0f} %" for share in shares)]
    for line, text in enumerate(texts, start=-1):
        panel.text(1.02, line, text, transform=beside, va="center", fontsize="small")
    _show_all_ranks(panel, len(methods))
    seaborn.despine(ax=panel)


def _draw_differences(
    panel: Axes, mean_ranks: pd.Series, p_values: pd.DataFrame, methods: Mapping[str, str]
) -> int:
    """Draw a critical-difference diagram and return how many lines it takes below its axis."""
    from scikit_posthocs import critical_difference_diagram

    names = list(mean_ranks.sort_values(kind="stable").index)
    if len(names) < 2:
        panel.set_axis_off()
        panel.text(0.5, 0.5, "fewer than two methods have a rank", transform=panel.transAxes)
        return 1
    styles = line_styles(methods)
    # Numbers stand for methods: the order of a set of names differs from process to process.
    numbers = range(len(names))
    drawn = critical_difference_diagram(
        pd.Series(mean_ranks[names].to_numpy(), index=numbers),
        pd.DataFrame(p_values.loc[names, names].to_numpy(), index=numbers, columns=numbers),
        alpha=LEVEL,
        ax=panel,
        color_palette={number: styles[names[number]].colour for number in numbers},
        label_fmt_left="{label}",
        label_fmt_right="{label}",
        marker_props={"marker": "None"},
        crossbar_props={"color": "#4D4D4D", "marker": "o", "markersize": 4},
        label_props={"fontsize": "small"},
        text_h_margin=LABEL_GAP,
    )
    for text in drawn["labels"]:
        name = names[int(text.get_text())]
        text.set(text=f"{methods[name]} ({mean_ranks[name]:.1f})", color="black")
    for name in names:
        look = styles[name]
        panel.plot(mean_ranks[name], 0, color=look.colour, marker=look.marker, markersize=8)
    panel.grid(visible=False)
    _show_all_ranks(panel, len(methods))
    panel.xaxis.set_label_position("top")
    panel.set_xlabel("Mean rank over resamples (← 1 is best)\nbars: not significantly different")
    return round(-min(text.get_position()[1] for text in drawn["labels"]))


def _show_all_ranks(panel: Axes, methods: int) -> None:
    panel.set_xlim(0.5, max(2, methods) + 0.5)
    panel.set_xticks(range(1, max(2, methods) + 1, 1 if methods <= MOST_TICKS else 2))
