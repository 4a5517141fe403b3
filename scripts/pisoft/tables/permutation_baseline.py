"""The table of the gain of methods over their permuted scores."""

from __future__ import annotations

from pisoft.statistics.permutation_baseline import METRICS
from pisoft.tables import grid, notes
from pisoft.views.view import View, display


@display(
    title="Gain over the permutation baseline",
    by=("protocol", "model"),
    reads=("permutation_baseline",),
    cells="permuted",
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    results = view.results("permutation_baseline")
    labels = {name: f"Gain, {label}" for name, label in results.with_average.items()}
    gains = grid.columns("dataset", labels, grid.with_interval, part="gain")
    means = grid.columns(
        "part",
        {"method": "Original scores", "permuted": "Permuted scores"},
        grid.plain(3),
        dataset=results.summary,
    )
    columns = [*means, *gains, grid.Column("p-value", gains[-1].keys, grid.p_value)]
    lines = grid.each("method", results.methods)
    blocks = grid.blocks(results, grid.metrics(METRICS), lines, columns, order_by=gains[-1])
    counts = notes.samples(results.select(part="gain"))
    below = [notes.text("interval"), notes.about("permutation_baseline"), counts]
    return grid.table(view, results, columns, blocks, below)
