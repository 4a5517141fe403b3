"""The table of scores that are 0 for random scores and 1 for the oracle."""

from __future__ import annotations

from dataclasses import replace

from pisoft.statistics.metrics import METRICS
from pisoft.tables import notes
from pisoft.tables.grid import blocks, columns, each, grid_table, with_interval
from pisoft.tables.layout import Table
from pisoft.views.view import View, display

SHOWN = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "soft_nc", "deletion_auc", "insertion_auc")


@display(title="Normalised scores", by=("model",), reads=("normalised_scores",), cells="controls")
def table(view: View) -> Table:
    """Build the table of one model."""
    results = view.results("normalised_scores")
    measured = set(zip(results.rows["protocol"], results.rows["metric"], strict=True))
    protocols = sorted(results.rows["protocol"].unique(), key=lambda name: name or "~")
    grid, spanners = [], []
    for protocol in protocols:
        names = [name for name in SHOWN if (protocol, name) in measured]
        labels = {name: METRICS[name].label.rstrip(" ↑↓") for name in names}
        grid += columns("metric", labels, with_interval, protocol=protocol)
        spanners.append((f"{protocol or 'any'} routing", len(names)))
    titles, lines = each("dataset", results.datasets), each("method", results.methods)
    made = blocks(results, titles, lines, grid, grid[0], sparse=True)
    below = [notes.of_table("normalised_scores"), notes.samples(results)]
    whole = grid_table(view, results, grid, made, below)
    return replace(whole, spanners=tuple(spanners))
