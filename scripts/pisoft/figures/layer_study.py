"""The figure of the layer study: AUC over depth (paper, fig:layer-ablation)."""

from __future__ import annotations

from typing import cast

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from pisoft.config import naming
from pisoft.config.base import TokenWeights
from pisoft.displays import display
from pisoft.figures.lines import draw_legend
from pisoft.figures.style import LineStyle, line_styles, theme
from pisoft.statistics.intervals import half_widths
from pisoft.statistics.layer_study import METRICS, REST, depth_statistics
from pisoft.views import View

DODGE = 1.02  # factor between a line's points and their depth, so that error bars do not overlap
# Both weightings look like the methods that have them in the other figures.
STYLES = dict(
    zip(
        ("loosened", "original"),
        line_styles(["grad_ellm", "grad_ellm_original"]).values(),
        strict=True,
    )
)


@display(
    title="Layers that Grad-ELLM sums",
    by=("protocol", "model", "dataset"),
    reads={"layer_study": "summary/layer_study"},
    cells="study",
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol, model and dataset."""
    files, settings, cell = view.files, view.settings, view.cell
    return plot_layer_study(files.rows("layer_study", **cell), settings.where(cell))


def plot_layer_study(samples: pd.DataFrame, where: str) -> Figure:
    """Draw the AUC over depth, π-Soft-NS left and π-Soft-NC right, one line per token weighting.

    Points are means over the samples that had no part in selecting a depth, the same as in the
    table; error bars are 95 % confidence intervals (Student's t).

    Args:
        samples: `layer_study` rows of one protocol, model and dataset.
        where: model, dataset and protocol, for the title.
    """
    statistics = depth_statistics(samples)
    numbers = statistics[statistics["statistic"] == REST]
    with theme():
        figure = Figure(figsize=(9.2, 4.2), layout="constrained")
        axes = figure.subplots(1, len(METRICS))
        for panel, (metric, label) in zip(axes, METRICS.items(), strict=True):
            chosen = numbers[numbers["metric"] == metric]
            for weights, line in chosen.groupby("token_weights", sort=False):
                _draw_line(panel, line.sort_values("depth"), cast(TokenWeights, weights))
            _finish_panel(panel, label, sorted(chosen["depth"].unique()))
        figure.suptitle(f"{where} · {_sample_text(numbers)}", fontsize="medium")
        draw_legend(figure)
    return figure


def _draw_line(panel: Axes, line: pd.DataFrame, weights: TokenWeights) -> None:
    style: LineStyle = STYLES[weights]
    name = naming.grad_ellm(weights)
    shift = DODGE if weights == "original" else 1 / DODGE
    panel.errorbar(
        line["depth"].astype(int) * shift,
        line["value"],
        yerr=half_widths(line["standard_error"], line["n"]),
        label=f"{name} (too few samples)" if line["value"].isna().all() else name,
        color=style.colour,
        marker=style.marker,
        linestyle=style.dash,
        markersize=7,
        linewidth=1.4,
        capsize=3,
    )


def _finish_panel(panel: Axes, label: str, depths: list[int]) -> None:
    """Space depths by their ratio, as they are usually doubled, and mark exactly those."""
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(FixedLocator(depths))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(ScalarFormatter())
    panel.set_xlabel("Decoder layers summed, counted from the last")
    panel.set_ylabel(label)
    seaborn.despine(ax=panel)


def _sample_text(numbers: pd.DataFrame) -> str:
    """Return `n = 18`, or a range over the token weightings where they differ."""
    fewest, most = numbers["n"].min(), numbers["n"].max()
    return f"n = {most}" if fewest == most else f"n = {fewest}\N{EN DASH}{most}"
