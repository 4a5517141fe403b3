"""The original Soft-NS and Soft-NC with E[R] (paper, `llama verify`)."""

from __future__ import annotations

from pisoft.statistics.metrics import METRICS
from pisoft.tables import notes
from pisoft.tables.grid import Column, blocks, columns, each, grid_table, rank, ranked
from pisoft.tables.layout import Table
from pisoft.views.view import View, display

SHOWN = {
    "soft_ns": METRICS["soft_ns"].label,
    "soft_nc": METRICS["soft_nc"].label,
    "expected_retained": "Retained tokens",
}


@display(
    title="Original Soft-NS and Soft-NC", by=("protocol", "model"), reads=("statistics", "coverage")
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    on_model = view.settings.methods_on(view.cell["model"])  # not those of selected depths
    results = view.results("statistics", metric=SHOWN, method=on_model)
    coverage = view.results("coverage", metric="identity", method=results.methods)
    numbers = columns("metric", SHOWN, ranked)
    grid = [Column("Rank", numbers[0].keys, rank), *numbers]
    titles, lines = each("dataset", results.datasets), each("method", results.methods)
    made = blocks(results, titles, lines, grid, grid[0], view.settings.families)
    marks = notes.marks(results, view.settings.equivalence_margin)
    below = [notes.of_table("original_soft"), *marks, notes.clamp(view.settings.clamp)]
    below += notes.of_coverage(coverage)
    return grid_table(view, results, grid, made, below)
