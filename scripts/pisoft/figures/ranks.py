"""How sure the ranking of methods is: ranks over resamples, and critical differences."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from pisoft.displays import display
from pisoft.figures.style import LineStyle, line_styles, theme
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import of_cell, present
from pisoft.statistics.standing import LEVEL
from pisoft.views import View

METRICS = {"auc_pi_soft_ns": "π-Soft-NS", "auc_pi_soft_nc": "π-Soft-NC"}
WIDTH = 13.0  # inches
LINE = 0.26  # inches per method or bar
MOST_TICKS = 10  # with a number each; of more ranks, every other one has one
LABEL_GAP = 0.15  # ranks between a label and the line that leads to it


@display(
    title="Ranks and critical differences",
    by=("protocol", "model"),
    reads={"statistics": "summary/statistics", "comparisons": "summary/comparisons"},
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol and model."""
    files, settings, cell = view.files, view.settings, view.cell
    comparisons = of_cell(files.rows("comparisons"), cell)  # of a single method: no pair
    statistics, where = files.rows("statistics", **cell), settings.where(cell)
    methods = present(settings.methods, statistics)
    return plot_ranks(statistics, comparisons, methods, where)


def plot_ranks(
    statistics: pd.DataFrame, comparisons: pd.DataFrame, methods: Mapping[str, str], where: str
) -> Figure:
    """Draw the ranks by π-Soft-NS above and by π-Soft-NC below, for the mean over datasets.

    Left: each method's rank with its 95 % interval over resamples of the samples, and the share of
    resamples in which it is best. Right: critical-difference diagrams of the mean ranks over
    resamples (:func:`scikit_posthocs.critical_difference_diagram`); a bar joins the methods whose
    circles it holds, no two of which the paired tests tell apart. Methods without a rank say so.

    Args:
        statistics: rows of kind `statistics` of one protocol and model.
        comparisons: rows of kind `comparisons` of the same; pairs that are missing were not tested.
        methods: label of each method.
        where: model and protocol, for the title.
    """
    styles = line_styles(methods)
    with theme():
        layout = ConstrainedLayoutEngine(h_pad=LINE / 2)
        figure = Figure(figsize=(WIDTH, WIDTH), layout=layout)
        panels = figure.subplots(len(METRICS), 2)
        lines = []  # of the right panels
        for (left, right), (metric, label) in zip(panels, METRICS.items(), strict=True):
            ranks = _ranks(statistics, metric, methods)
            left.set_title(f"{label} ↑", fontsize="medium")
            _draw_intervals(left, ranks, methods, styles)
            p_values = _p_values(comparisons, metric, ranks.index)
            lines.append(_draw_differences(right, ranks["mean_rank"], p_values, methods, styles))
        height = max(len(methods), *lines)
        figure.set_figheight(LINE * (height + 5) * len(METRICS))
        for right in panels[:, 1]:
            right.set_ylim(-height - 0.5, 0.5)
        figure.suptitle(f"Ranks for the mean over datasets · {where}", fontsize="medium")
    return figure


def _ranks(statistics: pd.DataFrame, metric: str, methods: Mapping[str, str]) -> pd.DataFrame:
    """Return the methods that have a rank for the mean over datasets, the best first."""
    of_metric = (statistics["metric"] == metric) & (statistics["dataset"] == AVERAGE)
    rows = statistics[of_metric].set_index("method")
    rows = rows.reindex([name for name in methods if name in rows.index])
    return rows.dropna(subset="rank").sort_values(["rank", "mean_rank"], kind="stable")


def _p_values(comparisons: pd.DataFrame, metric: str, methods: pd.Index) -> pd.DataFrame:
    """Return the adjusted p-value of every two methods; 1 where they were not tested."""
    of_metric = (comparisons["metric"] == metric) & (comparisons["dataset"] == AVERAGE)
    matrix = pd.DataFrame(1.0, index=methods, columns=methods)
    for row in comparisons[of_metric].itertuples():
        if row.method in methods and row.other in methods:
            matrix.loc[row.method, row.other] = matrix.loc[row.other, row.method] = row.p_adjusted
    return matrix


def _draw_intervals(
    panel: Axes, ranks: pd.DataFrame, methods: Mapping[str, str], styles: Mapping[str, LineStyle]
) -> None:
    """Draw each method's rank with its interval, and write how often it is best."""
    without = [f"{label} (no rank)" for name, label in methods.items() if name not in ranks.index]
    beside = panel.get_yaxis_transform()  # x in parts of the panel's width
    panel.text(1.02, -1, "best in", transform=beside, va="center", fontsize="small")
    for line, (method, row) in enumerate(ranks.iterrows()):
        look = styles[str(method)]
        ends = [row["rank_low"], row["rank_high"]]
        panel.plot(ends, [line, line], color=look.colour, linewidth=2.5, solid_capstyle="butt")
        panel.plot(row["rank"], line, color=look.colour, marker=look.marker, markersize=8)
        share = f"{100 * row['best_share']:.0f} %"
        panel.text(1.02, line, share, transform=beside, va="center", fontsize="small")
    names = [*(methods[str(name)] for name in ranks.index), *without]
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    _show_all_ranks(panel, len(methods))
    panel.set_xlabel("Rank with 95 % interval over resamples (← 1 is best)")
    seaborn.despine(ax=panel)


def _draw_differences(
    panel: Axes,
    mean_ranks: pd.Series,
    p_values: pd.DataFrame,
    methods: Mapping[str, str],
    styles: Mapping[str, LineStyle],
) -> int:
    """Draw a critical-difference diagram and return how many lines it takes below its axis."""
    from scikit_posthocs import critical_difference_diagram

    names = list(mean_ranks.sort_values(kind="stable").index)
    if len(names) < 2:
        panel.set_axis_off()
        panel.text(0.5, 0.5, "fewer than two methods have a rank", transform=panel.transAxes)
        return 1
    # Methods are told by number: the order of a set of names differs from process to process.
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
    panel.set_xlabel("Mean rank over resamples (← 1 is best); bars: not told apart")
    return round(-min(text.get_position()[1] for text in drawn["labels"]))


def _show_all_ranks(panel: Axes, methods: int) -> None:
    panel.set_xlim(0.5, max(2, methods) + 0.5)
    panel.set_xticks(range(1, max(2, methods) + 1, 1 if methods <= MOST_TICKS else 2))
