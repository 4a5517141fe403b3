"""The paper's figures with every method (π-Soft curves, figure soft-ns/nc_fig)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from pisoft.figures.panels import draw, lines, n_text, over_pi
from pisoft.statistics.metrics import CURVE_METRICS
from pisoft.statistics.results import select
from pisoft.views.registry import display
from pisoft.views.view import View


@display(
    title="Curves over the retaining probability, all methods",
    by=("protocol", "model", "dataset"),
    reads=("curves",),
)
def plot(view: View) -> Figure:
    """Draw π-Soft-NS and π-Soft-NC over the retaining probability, one line per method.

    Bands are 95 % confidence intervals of the mean over samples (Student's t). A method without any
    value has no line; the legend says so.
    """
    curves = view.results("curves")
    return draw_curves(view.where, curves.rows, curves.methods)


def draw_curves(title: str, rows: pd.DataFrame, labels: Mapping[str, str]) -> Figure:
    """Return both metrics over the retaining probability, from results `curves` of methods."""
    panels = {
        label: partial(lines, rows=select(rows, metric=metric), labels=labels)
        for metric, label in CURVE_METRICS.items()
    }
    figure = draw(f"{title} · {n_text(rows)}", panels, (9.2, 4.6))
    return of_one_range(figure, rows["value"])


def of_one_range(figure: Figure, values: pd.Series) -> Figure:
    """Let panels begin at 0, unless π-Soft-NS is negative, as it may be where it is not clamped."""
    over_pi(figure.axes, values)
    if not values.min() < 0:
        for panel in figure.axes:
            panel.set_ylim(bottom=0)
    return figure
