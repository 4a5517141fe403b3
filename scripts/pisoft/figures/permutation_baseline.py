"""What methods gain over their permuted scores."""

from __future__ import annotations

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, LINE_HEIGHT, dots, draw, n_text
from pisoft.statistics.metrics import AUC_METRICS, METRICS
from pisoft.statistics.results import select
from pisoft.views.registry import display
from pisoft.views.view import View


@display(
    title="Gain over the permutation baseline",
    by=("protocol", "model"),
    reads=("permutation_baseline",),
    cells="permuted",
)
def plot(view: View) -> Figure:
    """Draw each method's mean gain over datasets with its 95 % confidence interval, best first."""
    gains = view.results("permutation_baseline", part="gain")
    gains = gains.select(dataset=gains.summary)

    def fill(panel: Axes, metric: str) -> None:
        label = METRICS[metric].label.rstrip(" ↑")
        rows = select(gains.rows, metric=metric).sort_values("value", ascending=False)
        dots(panel, rows, gains.methods, f"Gain in {label} (better →)")
        panel.axvline(0, color=GREY, linewidth=1)

    return draw(
        f"{view.heading} · {n_text(gains.rows)}",
        {metric: partial(fill, metric=metric) for metric in AUC_METRICS},
        (10.4, 1.6 + LINE_HEIGHT * len(gains.methods)),
    )
