"""The table of normalised scores: 0 for random scores, 1 for the oracle."""

from __future__ import annotations

from pisoft.statistics.metrics import METRICS
from pisoft.tables import grid, notes
from pisoft.views.view import View, display

SHOWN = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "soft_nc", "deletion_auc", "insertion_auc")


@display(title="Normalised scores", by=("model",), reads=("normalised_scores",), cells="controls")
def table(view: View) -> grid.Table:
    """Build the table of one model."""
    results = view.results("normalised_scores")
    measured = set(zip(results.rows["protocol"], results.rows["metric"], strict=True))
    protocols = sorted(results.rows["protocol"].unique(), key=lambda name: name or "~")
    columns, spanners = [], []
    for protocol in protocols:
        names = [name for name in SHOWN if (protocol, name) in measured]
        labels = {name: METRICS[name].label.rstrip(" ↑↓") for name in names}
        columns += grid.columns("metric", labels, grid.with_interval, protocol=protocol)
        spanners.append((f"{protocol or 'any'} routing", len(names)))
    titles, lines = grid.each("dataset", results.datasets), grid.each("method", results.methods)
    blocks = grid.blocks(results, titles, lines, columns, columns[0], sparse=True)
    below = [notes.about("normalised_scores"), notes.samples(results)]
    return grid.table(view, results, columns, blocks, below, spanners=spanners)
