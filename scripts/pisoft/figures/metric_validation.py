"""Ranking of the controls by π-Soft metrics, at every retaining probability."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, draw, heading, in_rows, lines, n_text, over_pi
from pisoft.figures.style import LineStyle, abreast, theme
from pisoft.statistics.metrics import CURVE_METRICS
from pisoft.statistics.results import select
from pisoft.views.labels import CONTROL_PAIRS
from pisoft.views.titles import CHANCE, controls_in_order
from pisoft.views.view import View, display

# Of the metrics, where lines are no methods.
STYLES = {"pi_soft_ns": LineStyle("black", "", "-"), "pi_soft_nc": LineStyle("#0B4FB3", "", "--")}
PAIRS = 4  # of controls, side by side


@display(
    title="Metric validation",
    by=("protocol", "model", "dataset"),
    reads=("metric_validation",),
    cells="controls",
)
def plot(view: View) -> Figure:
    """Draw the controls' means over π and, below, the share of samples with each pair in order."""
    results = view.results("metric_validation", metric=CURVE_METRICS)
    means = results.select(part="mean")
    controls = {name: means.methods[name] for name in means.rows["method"].unique()}

    def fill(panel: Axes, content: str) -> None:
        if content in CURVE_METRICS:
            lines(panel, select(means.rows, metric=content), controls)
            return
        rows = select(results.rows, part=content)
        lines(panel, rows.assign(method=rows["metric"]), CURVE_METRICS, STYLES)
        panel.axhline(CHANCE, color=GREY, linewidth=0.8, linestyle=":")
        panel.set(title=CONTROL_PAIRS[content], xlim=(0, 1), ylim=(-0.03, 1.03), ylabel="")
        panel.set(xlabel="π", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))

    above = {label: metric for metric, label in CURVE_METRICS.items()}
    below = {part: part for part in CONTROL_PAIRS if part in {*results.rows["part"]}}
    means_rows, rows = in_rows(above, 2), in_rows(below, PAIRS)
    message = controls_in_order(results.rows, CONTROL_PAIRS)
    title = heading(view, n_text(results.rows), message=message)
    ratios = [1.6] * len(means_rows) + [1] * len(rows)
    height = 5.4 + 2 * (len(means_rows) - 1 + len(rows) - 1)
    figure = draw(
        title, fill, above | below, height, rows=[*means_rows, *rows], height_ratios=ratios
    )
    over_pi(figure.axes[: len(above)], means.rows["value"])
    for panel in figure.axes[len(above) :][:1]:
        panel.set_ylabel("Share of samples ↑")
        with theme():
            panel.legend(fontsize="small", loc="best")
    for index, panel in enumerate(figure.axes[len(above) :]):
        panel.tick_params(labelleft=index % abreast(PAIRS) == 0)
    return figure
