"""The table of what methods gain over permuted scores."""

from __future__ import annotations

from pisoft.displays import display
from pisoft.statistics.permutation_baseline import METRICS
from pisoft.tables import notes
from pisoft.tables.grid import (
    Column,
    blocks,
    columns,
    each,
    grid_table,
    metrics,
    p_value,
    plain,
    with_interval,
)
from pisoft.tables.layout import Table
from pisoft.views import View


@display(
    title="Gain over the permutation baseline",
    by=("protocol", "model"),
    reads={"permutation_baseline": "summary/permutation_baseline"},
    cells="twin",
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    results = view.results("permutation_baseline")
    labels = {name: f"Gain, {label}" for name, label in results.with_average.items()}
    gains = columns("dataset", labels, with_interval(3), part="gain")
    means = columns(
        "part", {"method": "Method", "permuted": "Permuted"}, plain(3), dataset=results.summary
    )
    grid = [*means, *gains, Column("p", gains[-1].keys, p_value)]
    lines = each("method", results.methods)
    made = blocks(results, metrics(METRICS), lines, grid, order_by=gains[-1])
    counts = notes.samples(results.select(part="gain").rows, results.datasets)
    below = [*notes.PERMUTATION_BASELINE, counts]
    return grid_table(view, "Gain over the permutation baseline", results, grid, made, below)
