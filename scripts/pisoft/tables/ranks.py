"""The table of how sure the ranking of methods is."""

from __future__ import annotations

import numpy as np

from pisoft.formatting import NOTHING
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.tables import notes
from pisoft.tables.grid import Column, blocks, columns, each, general, grid_table, rank
from pisoft.tables.layout import Entry, Table
from pisoft.views.view import Number, View, display


@display(
    title="How certain is the ranking?", by=("protocol", "model"), reads=("ranks", "statistics")
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    statistics = view.results("statistics", metric=AUC_METRICS)
    results = view.results("ranks", metric=AUC_METRICS, dataset=AVERAGE)
    without = {name: f"Without {label}" for name, label in statistics.datasets.items()}
    grid = [
        Column("Rank", {"part": "rank"}, general, ascending=True),
        Column("95 % interval", {"part": "rank"}, _interval),
        Column("Best in", {"part": "best_share"}, _percent),
        *columns("other", without, rank, part="without"),
    ]
    titles = {METRICS[name].label.removeprefix("AUC "): {"metric": name} for name in AUC_METRICS}
    lines = each("method", statistics.methods)
    missing = [
        f"No rank for {label} by {title}: no value for some dataset."
        for title, block in titles.items()
        for label, line in lines.items()
        if np.isnan(results.number({**block, **line, "part": "rank"}).value)
    ]
    made = blocks(results, titles, lines, grid, grid[0])
    below = [notes.of_table("ranks"), *missing, notes.samples(statistics)]
    return grid_table(view, results, grid, made, below)


def _interval(number: Number) -> Entry:
    return Entry(NOTHING if np.isnan(number.low) else f"{number.low:g} to {number.high:g}")


def _percent(number: Number) -> Entry:
    return Entry(NOTHING if np.isnan(number.value) else f"{100 * number.value:.0f} %")
