"""How dense a method's scores are against how faithful (paper, app:attribution-distribution)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.displays import display
from pisoft.figures.lines import draw_legend, sample_text
from pisoft.figures.style import LineStyle, line_styles, theme
from pisoft.statistics.reading import present
from pisoft.views import View

PANELS = {"auc_pi_soft_ns": "AUC π-Soft-NS ↑", "auc_pi_soft_nc": "AUC π-Soft-NC ↑"}
MEASURE = "mean_score"


@display(
    title="Are dense scores what is rewarded?",
    by=("protocol", "model", "dataset"),
    reads={
        "statistics": "summary/statistics",
        "density": "summary/density/{model}",
        "density_correlations": "summary/density_correlations/{model}",
    },
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol, model and dataset."""
    files, settings, cell = view.files, view.settings, view.cell
    measured = {"model": cell["model"], "dataset": cell["dataset"], "measure": MEASURE}
    density = files.rows("density", **measured)
    correlations = files.rows("density_correlations", **measured, protocol=cell["protocol"])
    statistics = files.rows("statistics", **cell)
    methods = present(settings.methods, density)
    return plot_density(density, statistics, correlations, methods, settings.where(cell))


def plot_density(
    density: pd.DataFrame,
    statistics: pd.DataFrame,
    correlations: pd.DataFrame,
    methods: Mapping[str, str],
    where: str,
) -> Figure:
    """Draw each method at its mean score and mean AUC, one panel per metric, with 95 % intervals.

    A panel's title is the mean over samples of the rank correlation over methods.

    Args:
        density: `density` rows of one model and dataset, of the measure that is shown.
        statistics: `statistics` rows of one protocol, model and dataset.
        correlations: `density_correlations` rows of the same, of the measure that is shown.
        methods: label of each method, in the order of the legend.
        where: model, dataset and protocol, for the title.
    """
    styles = line_styles(methods)
    across = density.set_index("method")
    of_methods = statistics["method"].isin(list(methods))
    shown = statistics[statistics["metric"].isin(PANELS) & of_methods]
    with theme():
        figure = Figure(figsize=(9.2, 5.0), layout="constrained")
        axes = figure.subplots(1, len(PANELS))
        for panel, (metric, label) in zip(axes, PANELS.items(), strict=True):
            up = shown[shown["metric"] == metric].set_index("method")
            for method, name in methods.items():
                _draw_method(panel, across.loc[method], up.loc[method], name, styles[method])
            of_metric = correlations[correlations["metric"] == metric].set_index("with_random")
            panel.set_title(_correlation_text(of_metric), fontsize="small")
            panel.set_xlabel("Mean score (→ dense)")
            panel.set_ylabel(label)
            seaborn.despine(ax=panel)
        figure.suptitle(
            f"Density against faithfulness · {where} · {sample_text(shown)}", fontsize="medium"
        )
        draw_legend(figure)
    return figure


def _draw_method(panel: Axes, x: pd.Series, y: pd.Series, label: str, style: LineStyle) -> None:
    """Draw one method's mean with its intervals along both axes; without a value, name it."""
    empty = pd.isna(x["value"]) or pd.isna(y["value"])
    panel.plot([x["low"], x["high"]], [y["value"]] * 2, color=style.colour, linewidth=1.2)
    panel.plot([x["value"]] * 2, [y["low"], y["high"]], color=style.colour, linewidth=1.2)
    panel.plot(
        x["value"],
        y["value"],
        label=f"{label} (no value)" if empty else label,
        color=style.colour,
        marker=style.marker,
        markersize=8,
        linestyle="none",
    )


def _correlation_text(rows: pd.DataFrame) -> str:
    """Return Spearman's ρ with and without random scores, with intervals."""
    names = {
        True: "Spearman's ρ, all methods",
        False: "Spearman's ρ, without random scores",
    }
    return "\n".join(
        f"{name}: {_number_text(rows.loc[key])}" for key, name in names.items() if key in rows.index
    )


def _number_text(row: pd.Series) -> str:
    if pd.isna(row["value"]):
        return "undefined"
    interval = "" if pd.isna(row["low"]) else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['value']:.2f}{interval}".replace("-", "\N{MINUS SIGN}")
