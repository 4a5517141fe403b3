"""The figure of the layer study: AUC over depth (paper, fig:layer-ablation)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pisoft.config.studies import grad_ellm_label
from pisoft.figures.panels import draw, heading, lines, n_text, over_doublings
from pisoft.figures.style import line_styles
from pisoft.statistics.layer_study import REST
from pisoft.statistics.metrics import AUC_METRICS, METRICS, PROPOSED
from pisoft.statistics.results import select
from pisoft.views.titles import best_depths
from pisoft.views.view import View, display

# Both weightings look like the methods that have them in the other figures.
STYLES = dict(zip(("loosened", "original"), line_styles(PROPOSED).values(), strict=True))


@display(
    title="How many layers should Grad-ELLM sum?",
    by=("protocol", "model", "dataset"),
    reads=("depths",),
    cells="layer_study",
)
def plot(view: View) -> Figure:
    """Draw the AUC over depth, one line per token weighting.

    Lines are means over the samples not used to select a depth, as in the table; bands are 95 %
    confidence intervals (Student's t).
    """
    rows = view.results("depths", part=REST).rows
    labels = {weights: grad_ellm_label(weights) for weights in rows["method"].unique()}

    def fill(panel: Axes, metric: str) -> None:
        lines(panel, select(rows, metric=metric), labels, STYLES)
        over_doublings(panel, rows["position"])
        panel.set_xlabel("Decoder layers summed, counted from the last")

    panels = {METRICS[metric].label: metric for metric in AUC_METRICS}
    title = heading(view, n_text(rows), message=best_depths(rows, labels))
    return draw(title, fill, panels, 2.9)
