"""The table of the sensitivity of the order of the methods to choices of the metric."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pisoft.formatting import NOTHING
from pisoft.statistics.alternatives import ALTERNATIVES
from pisoft.statistics.metrics import AUC_METRICS
from pisoft.tables import grid, notes
from pisoft.views.view import Number, Results, View, display


@display(
    title="Does the ranking depend on the metric's settings?",
    by=("protocol", "model"),
    reads=("sensitivity",),
    cells="sensitivity",
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    results = view.results("sensitivity")
    lines = grid.each("part", ALTERNATIVES)
    grid_columns = columns(results, view.settings.methods)
    blocks = grid.blocks(results, grid.metrics(AUC_METRICS), lines, grid_columns, sparse=True)
    orders = notes.orders(results, ALTERNATIVES)
    below = [notes.about("sensitivity"), *orders, notes.samples(results)]
    return grid.table(view, results, grid_columns, blocks, below, corner="Choice changed")


def columns(results: Results, labels: Mapping[str, str]) -> list[grid.Column]:
    """Return the columns: τ on each dataset, whether another method is best, the largest change.

    `labels` are the labels of methods.
    """
    summary = results.summary

    def best(number: Number) -> grid.Entry:
        if np.isnan(number.value):
            return grid.Entry(NOTHING)
        if not number.text:  # of several orders
            return grid.Entry(f"in {100 * number.value:.0f} %")
        names = number.text.split(", ")
        methods = ", ".join(labels.get(name, name) for name in names)
        return grid.Entry(methods if number.value else "no")

    return [
        *grid.columns("dataset", results.with_average, grid.with_interval),
        grid.Column("Another is best", {"dataset": summary, "other": "best_changes"}, best),
        grid.Column(
            "Largest change of rank", {"dataset": summary, "other": "rank_change"}, grid.general
        ),
    ]
