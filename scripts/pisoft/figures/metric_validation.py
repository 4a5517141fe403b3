"""How π-Soft metrics rank the controls, at every retaining probability."""

from __future__ import annotations

import seaborn
from matplotlib.figure import Figure

from pisoft.displays import display
from pisoft.figures.panels import GREY, lines, n_text, over_pi
from pisoft.figures.style import theme
from pisoft.views import View

METRICS = {"pi_soft_ns": "π-Soft-NS ↑", "pi_soft_nc": "π-Soft-NC ↑"}
PAIRS = {
    "oracle_over_random": "Oracle > random",
    "oracle_over_noisy": "Oracle > noisy",
    "noisy_over_random": "Noisy > random",
    "random_over_anti-oracle": "Random > anti-oracle",
}
CHANCE = 0.5


@display(
    title="Metric validation",
    by=("protocol", "model", "dataset"),
    reads={"metric_validation": "summary/metric_validation"},
    cells="control",
)
def plot(view: View) -> Figure:
    """Draw the controls' means over π above, and how often one is better below."""
    results = view.results("metric_validation", metric=METRICS)
    means = results.select(part="mean")
    controls = {name: means.methods[name] for name in means.rows["method"].unique()}
    pairs = results.select(part=PAIRS)
    shares = pairs.rows.assign(method=pairs.rows["part"])
    with theme():
        figure = Figure(figsize=(10.4, 7.6), layout="constrained")
        axes = figure.subplots(2, len(METRICS))
        for (above, below), (metric, label) in zip(axes.T, METRICS.items(), strict=True):
            lines(above, means.select(metric=metric).rows, controls)
            lines(below, shares[shares["metric"] == metric], PAIRS)
            above.set_ylabel(label)
            below.set_ylabel("Share of samples in this order ↑")
            below.axhline(CHANCE, color=GREY, linewidth=1)
        over_pi(axes[0], means.rows["value"])
        over_pi(axes[1], shares["value"])
        for panel in axes[1]:
            panel.set_ylim(-0.03, 1.03)
        for panel in axes[:, -1]:
            panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        seaborn.despine(figure)
        figure.suptitle(
            f"Metric validation · {view.where} · {n_text(results.rows)}", fontsize="medium"
        )
    return figure
