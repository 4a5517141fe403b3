"""How far the order of the methods changes when a choice of the metric is made otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.displays import display
from pisoft.figures.lines import sample_text
from pisoft.figures.style import theme
from pisoft.statistics.alternatives import ALTERNATIVES
from pisoft.statistics.metrics import AVERAGE
from pisoft.views import View

PANELS = {"auc_pi_soft_ns": "AUC π-Soft-NS", "auc_pi_soft_nc": "AUC π-Soft-NC"}
LINE = 0.3  # inches per alternative
SAME, OTHER, SINGLE = "#0072B2", "#D55E00", "#8C8C8C"
REFERENCE = "#4D4D4D"
NONE_APPLIES = "does not apply"
BESIDE = 1.02  # in widths of a panel: where shares stand


@display(
    title="Would other choices change the order?",
    by=("protocol", "model"),
    reads={"sensitivity": "summary/sensitivity"},
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol and model."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = files.rows("sensitivity", **cell)
    return plot_sensitivity(rows, settings.datasets, settings.where(cell))


def plot_sensitivity(rows: pd.DataFrame, datasets: Mapping[str, str], where: str) -> Figure:
    """Draw Kendall's τ of every alternative's order with the run's, one panel per metric.

    A dot is the order by the mean over datasets, with τ's 95 % bootstrap interval; a ring is that
    of a single dataset. Beside it stands whether another method is best. An alternative without a
    number says why.

    Args:
        rows: `sensitivity` rows of one protocol and model.
        datasets: label of each dataset.
        where: model and protocol, for the title.
    """
    names = [name for name in ALTERNATIVES if name in set(rows["alternative"])]
    average = rows[rows["dataset"] == AVERAGE]
    single = rows[rows["dataset"].isin(list(datasets))] if len(datasets) > 1 else rows.iloc[:0]
    with theme():
        figure = Figure(figsize=(11, LINE * (len(names) + 5)), layout="constrained")
        axes = figure.subplots(1, len(PANELS), sharex=True, sharey=True)
        for panel, (metric, label) in zip(axes, PANELS.items(), strict=True):
            of_metric = average[average["metric"] == metric].set_index("alternative")
            rings = single[single["metric"] == metric]
            _draw_panel(panel, names, of_metric, rings)
            panel.set_title(label, fontsize="medium")
        axes[0].set_yticks(range(len(names)), [ALTERNATIVES[name] for name in names])
        axes[0].set_ylim(len(names) - 0.5, -1.5)
        known = pd.concat([rows["kendall_tau"], rows["low"]]).dropna()
        axes[0].set_xlim(min(0.0, known.min() if len(known) else 0.0) - 0.05, 1.05)
        figure.supxlabel(_KEY if len(single) else _KEY.split(";")[0], fontsize="small")
        figure.suptitle(
            f"Order of the methods with one choice made otherwise · {where} · "
            f"{sample_text(average)}",
            fontsize="medium",
        )
    return figure


_KEY = (
    "Kendall's τ-b with the run's order (→ 1: all methods in the same order), 95 % interval over "
    "samples; rings: single datasets"
)


def _draw_panel(panel: Axes, names: list[str], rows: pd.DataFrame, rings: pd.DataFrame) -> None:
    """Draw a line per alternative; those that a metric does not have say so."""
    panel.axvline(1, color=REFERENCE, linewidth=1)
    panel.axvline(0, color=REFERENCE, linewidth=0.8, linestyle=":")
    beside = panel.get_yaxis_transform()  # x in parts of the panel's width
    panel.text(BESIDE, -1, "other best", transform=beside, va="center", fontsize="x-small")
    for line, name in enumerate(names):
        row = rows.loc[name] if name in rows.index else None
        if row is None or pd.isna(row["kendall_tau"]):
            why = NONE_APPLIES if row is None else row["reason"]
            panel.text(
                0.03, line, why, transform=beside, va="center", fontsize="x-small", style="italic"
            )
        else:
            colour = OTHER if row["best_changes"] >= 0.5 else SAME
            panel.plot([row["low"], row["high"]], [line, line], color=colour, linewidth=2)
            panel.plot(row["kendall_tau"], line, "o", color=colour, markersize=7)
            best = _best_text(row)
            panel.text(BESIDE, line, best, transform=beside, va="center", fontsize="x-small")
        taus = rings.loc[rings["alternative"] == name, "kendall_tau"].dropna()
        if len(taus):
            below = [line + 0.25] * len(taus)
            panel.plot(taus, below, "o", color=SINGLE, markersize=4, markerfacecolor="none")
    seaborn.despine(ax=panel)


def _best_text(row: pd.Series) -> str:
    """Return whether another method is best; of several orders, in how many."""
    if pd.isna(row["best"]):
        return f"{100 * row['best_changes']:.0f} %"
    return "yes" if row["best_changes"] else "no"
