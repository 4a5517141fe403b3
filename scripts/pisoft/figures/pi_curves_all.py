"""The paper's figures with every method (π-Soft curves, figure soft-ns/nc_fig)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from pisoft.displays import display
from pisoft.figures.lines import PI_SOFT, begin_at_zero, draw_curves, with_bands
from pisoft.statistics.reading import present
from pisoft.views import View


@display(
    title="Curves over the retaining probability, all methods",
    by=("protocol", "model", "dataset"),
    reads={"soft_curves": "summary/soft_curves"},
)
def plot(view: View) -> Figure:
    """Draw the figure of one protocol, model and dataset."""
    files, settings, cell = view.files, view.settings, view.cell
    curves = files.rows("soft_curves", **cell)
    return plot_all_curves(curves, present(settings.methods, curves), settings.where(cell))


def plot_all_curves(curves: pd.DataFrame, methods: Mapping[str, str], where: str) -> Figure:
    """Draw π-Soft-NS and π-Soft-NC over the retaining probability, one line per method.

    Bands are 95 % confidence intervals of the mean over samples (Student's t). A method without any
    value has no line and says so in the legend.

    Args:
        curves: `soft_curves` rows of one protocol, model and dataset.
        methods: label of each method, in the order of the legend.
        where: model, dataset and protocol, for the title.
    """
    figure = draw_curves(with_bands(curves), PI_SOFT, methods, where)
    begin_at_zero(figure.axes, curves["mean"])
    return figure
