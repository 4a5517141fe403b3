"""The table of the sources of variance of a sample's AUC."""

from __future__ import annotations

import numpy as np

from pisoft.statistics.metrics import AUC_METRICS, METRICS
from pisoft.tables import grid, notes
from pisoft.views.view import Number, View, display

SOURCES = {"between_samples": "Between samples", "monte_carlo": "Draws", "numerical": "Rounding"}


@display(
    title="Where the variance comes from", by=("protocol", "model"), reads=("variance_components",)
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    results = view.results("variance_components")
    total = results.select(part="total")

    def deviation(number: Number) -> grid.Entry:
        return grid.Entry(grid.number_text(np.sqrt(number.value), 3))

    def share(number: Number) -> grid.Entry:
        keys = {key: getattr(number, key) for key in ("metric", "dataset", "method")}
        whole = total.number(keys).value
        part = number.value / whole if whole else np.nan
        return grid.Entry("<0.01" if 0 < part < 0.005 else grid.number_text(part, 2))

    columns = [
        grid.Column("Deviation", {"part": "total"}, deviation),
        *grid.columns("part", SOURCES, share),
    ]
    titles = {
        f"{METRICS[metric].label.rstrip(' ↑')}, {label}": {"metric": metric, "dataset": dataset}
        for metric in AUC_METRICS
        for dataset, label in results.datasets.items()
    }
    blocks = grid.blocks(results, titles, grid.each("method", results.methods), columns, columns[0])
    shares = "Shares between samples and of draws"
    single_samples = notes.sparse(view.settings, "single_samples", numbers=shares)
    areas = notes.sparse(view.settings, "completed_areas")
    below = [notes.about("variance_components"), areas, single_samples]
    return grid.table(view, results, columns, blocks, below)
