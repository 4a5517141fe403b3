"""Similarity of scores after randomising the model or changing the input."""

from __future__ import annotations

from matplotlib.figure import Figure

from pisoft.figures.panels import GREY, dot_panels, n_text
from pisoft.views.labels import sanity_checks
from pisoft.views.titles import unchanged_scores
from pisoft.views.view import View, display


@display(
    title="Do scores depend on the model and the input?",
    by=("model",),
    reads=("sanity_checks",),
    cells="sanity_checks",
)
def plot(view: View) -> Figure:
    """Draw Spearman's ρ of every check, mean over datasets, with 95 % intervals."""
    results = view.results("sanity_checks")
    results = results.select(dataset=results.summary)
    panels = {
        f"Spearman's ρ ↓\n{label}": results.select(**keys).rows
        for label, keys in sanity_checks(results.rows).items()
    }
    n, message = n_text(results.rows), unchanged_scores(results.rows)
    figure = dot_panels(view, panels, results.methods, n, message=message)
    for panel in figure.axes:
        panel.axvline(0, color=GREY, linewidth=1)
    return figure
