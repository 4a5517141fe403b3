"""The table of the certainty of the ranking."""

from __future__ import annotations

import numpy as np

from pisoft.formatting import NOTHING
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.tables import grid, notes
from pisoft.views.view import Number, View, display


@display(
    title="How certain is the ranking?", by=("protocol", "model"), reads=("ranks", "statistics")
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    statistics = view.results("statistics", metric=AUC_METRICS)
    results = view.results("ranks", metric=AUC_METRICS, dataset=AVERAGE)
    without = {name: f"Without {label}" for name, label in statistics.datasets.items()}
    columns = [
        grid.Column("Rank", {"part": "rank"}, grid.general, ascending=True),
        grid.Column("95 % interval", {"part": "rank"}, _interval),
        grid.Column("Best in", {"part": "best_share"}, _percent),
        *grid.columns("other", without, grid.rank, part="without"),
    ]
    titles = {METRICS[name].label.removeprefix("AUC "): {"metric": name} for name in AUC_METRICS}
    lines = grid.each("method", statistics.methods)
    missing = [
        f"No rank for {label} by {title}: no value for some dataset."
        for title, block in titles.items()
        for label, line in lines.items()
        if np.isnan(results.number({**block, **line, "part": "rank"}).value)
    ]
    blocks = grid.blocks(results, titles, lines, columns, columns[0])
    below = [notes.about("ranks"), *missing, notes.samples(statistics)]
    return grid.table(view, results, columns, blocks, below)


def _interval(number: Number) -> grid.Entry:
    return grid.Entry(NOTHING if np.isnan(number.low) else f"{number.low:g} to {number.high:g}")


def _percent(number: Number) -> grid.Entry:
    return grid.Entry(NOTHING if np.isnan(number.value) else f"{100 * number.value:.0f} %")
