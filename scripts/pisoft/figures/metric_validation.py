"""Whether π-Soft metrics tell controls apart, at every retaining probability."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.displays import display
from pisoft.figures.lines import PI_SOFT, draw_curve, finish_panel, sample_text, share_range
from pisoft.figures.style import line_styles, theme
from pisoft.views import View

PAIRS = {
    "oracle_over_random": "Oracle > random",
    "oracle_over_noisy": "Oracle > noisy",
    "noisy_over_random": "Noisy > random",
    "random_over_anti-oracle": "Random > anti-oracle",
}
CHANCE = 0.5
GREY = "#4D4D4D"


@display(
    title="Can the metrics tell?",
    by=("protocol", "model", "dataset"),
    reads={"metric_validation": "summary/metric_validation"},
    cells="control",
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol, model and dataset."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = files.rows("metric_validation", **cell)
    return plot_diagnosis(rows, settings.methods | settings.controls, settings.where(cell))


def plot_diagnosis(rows: pd.DataFrame, labels: Mapping[str, str], where: str) -> Figure:
    """Draw the controls' means over π above, and how often one is better below.

    Args:
        rows: `diagnosis` rows of one protocol, model and dataset.
        labels: of random scores and the controls.
        where: model, dataset and protocol, for the title.
    """
    along = rows.dropna(subset="pi").rename(columns={"value": "mean"})
    of_controls = along[along["statistic"] == "mean"]
    controls = {name: labels[name] for name in of_controls["method"].unique()}
    pairs = along[along["method"].isna()].assign(method=along["statistic"])
    with theme():
        figure = Figure(figsize=(10.4, 7.6), layout="constrained")
        axes = figure.subplots(2, len(PI_SOFT))
        for column, (metric, label) in enumerate(PI_SOFT.items()):
            _draw(axes[0, column], of_controls[of_controls["metric"] == metric], controls, label)
            shares = "Share of samples in this order ↑"
            _draw(axes[1, column], pairs[pairs["metric"] == metric], PAIRS, shares)
            axes[1, column].axhline(CHANCE, color=GREY, linewidth=1)
            axes[1, column].set_ylim(-0.03, 1.03)
        share_range(axes[0], of_controls["mean"])
        for panel in axes[:, -1]:
            panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        figure.suptitle(
            f"Can the metrics tell? · {where} · {sample_text(along)}", fontsize="medium"
        )
    return figure


def _draw(panel: Axes, rows: pd.DataFrame, names: Mapping[str, str], label: str) -> None:
    styles = line_styles(names)
    for position, (name, text) in enumerate(names.items()):
        curve = rows[rows["method"] == name]
        draw_curve(panel, curve, styles[name], position).set_label(text)
    finish_panel(panel, label)
