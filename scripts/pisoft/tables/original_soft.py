"""The original Soft-NS and Soft-NC with E[R] (paper, `llama verify`)."""

from __future__ import annotations

from pisoft.statistics.metrics import METRICS
from pisoft.tables import grid, notes
from pisoft.views.view import View, display

SHOWN = {
    "soft_ns": METRICS["soft_ns"].label,
    "soft_nc": METRICS["soft_nc"].label,
    "expected_retained": "Retained tokens",
}


@display(
    title="Original Soft-NS and Soft-NC", by=("protocol", "model"), reads=("statistics", "coverage")
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    on_model = view.settings.methods_on(view.cell["model"])  # not those of selected depths
    results = view.results("statistics", metric=SHOWN, method=on_model)
    coverage = view.results("coverage", metric="identity", method=results.methods)
    numbers = grid.columns("metric", SHOWN, grid.ranked)
    columns = [grid.Column("Rank", numbers[0].keys, grid.rank), *numbers]
    titles, lines = grid.each("dataset", results.datasets), grid.each("method", results.methods)
    blocks = grid.blocks(results, titles, lines, columns, columns[0], view.settings.families)
    marks = notes.marks(results, view.settings.equivalence_margin)
    below = [notes.about("original_soft"), *marks, notes.clamp(view.settings.clamp)]
    below += notes.sample_counts(coverage)
    return grid.table(view, results, columns, blocks, below)
