"""How π-Soft metrics rank the controls, at every retaining probability."""

from __future__ import annotations

from functools import partial

from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, draw, lines, n_text, over_pi
from pisoft.figures.style import theme
from pisoft.statistics.results import select
from pisoft.views.registry import display
from pisoft.views.view import View

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
    reads=("metric_validation",),
    cells="controls",
)
def plot(view: View) -> Figure:
    """Draw the controls' means over π above, and how often one is better below."""
    results = view.results("metric_validation", metric=METRICS)
    means = results.select(part="mean")
    controls = {name: means.methods[name] for name in means.rows["method"].unique()}
    pairs = results.select(part=PAIRS)
    shares = pairs.rows.assign(method=pairs.rows["part"])
    above = {
        label: partial(lines, rows=select(means.rows, metric=metric), labels=controls)
        for metric, label in METRICS.items()
    }
    below = {
        f"{label.rstrip(' ↑')}, share in this order ↑": partial(
            lines, rows=select(shares, metric=metric), labels=PAIRS
        )
        for metric, label in METRICS.items()
    }
    title = f"{view.heading} · {n_text(results.rows)}"
    figure = draw(title, above | below, (10.4, 7.6), legend=False, columns=len(METRICS))
    over_pi(figure.axes[: len(METRICS)], means.rows["value"])
    over_pi(figure.axes[len(METRICS) :], shares["value"])
    for panel in figure.axes[len(METRICS) :]:
        panel.axhline(CHANCE, color=GREY, linewidth=1)
        panel.set_ylim(-0.03, 1.03)
    with theme():
        for panel in figure.axes[1::2]:
            panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure
