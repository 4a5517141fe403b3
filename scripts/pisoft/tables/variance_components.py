"""Where the variance of a sample's AUC comes from."""

from __future__ import annotations

import numpy as np

from pisoft.statistics.metrics import AUC_METRICS, METRICS
from pisoft.tables import notes
from pisoft.tables.grid import Column, blocks, columns, each, grid_table
from pisoft.tables.layout import Entry, Table, number_text
from pisoft.views.view import Number, View, display

SOURCES = {"between_samples": "Between samples", "monte_carlo": "Draws", "numerical": "Rounding"}


@display(
    title="Where the variance comes from", by=("protocol", "model"), reads=("variance_components",)
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    results = view.results("variance_components")
    total = results.select(part="total")

    def deviation(number: Number) -> Entry:
        return Entry(number_text(np.sqrt(number.value), 3))

    def share(number: Number) -> Entry:
        keys = {key: getattr(number, key) for key in ("metric", "dataset", "method")}
        whole = total.number(keys).value
        part = number.value / whole if whole else np.nan
        return Entry("<0.01" if 0 < part < 0.005 else number_text(part, 2))

    grid = [Column("Deviation", {"part": "total"}, deviation), *columns("part", SOURCES, share)]
    titles = {
        f"{METRICS[metric].label.rstrip(' ↑')}, {label}": {"metric": metric, "dataset": dataset}
        for metric in AUC_METRICS
        for dataset, label in results.datasets.items()
    }
    made = blocks(results, titles, each("method", results.methods), grid, grid[0])
    shares = "Shares between samples and of draws"
    of_single = notes.sparse(view.settings, "single_samples", numbers=shares)
    areas = notes.sparse(view.settings, "completed_areas")
    below = [notes.of_table("variance_components"), areas, of_single]
    return grid_table(view, results, grid, made, below)
