"""The table of the off-distribution check of randomly ablated inputs."""

from __future__ import annotations

import numpy as np

from pisoft.statistics.off_distribution import CLEAN, OPERATORS
from pisoft.tables import grid, notes
from pisoft.views.view import Results, View, display

COLUMNS = [
    grid.Column("Entropy, nats", {"metric": "entropy"}, grid.with_interval),
    grid.Column("Probability of label words", {"metric": "label_probability"}, grid.with_interval),
    grid.Column("Attention on ablated tokens", {"metric": "attention"}, grid.with_interval),
    grid.Column(
        "Same tokens, clean input", {"metric": "attention", "part": CLEAN}, grid.with_interval
    ),
    grid.Column("Norm of the last layer", {"metric": "hidden_norm"}, grid.with_interval),
]
SHOWN = (0.1, 0.5, 0.9)  # retaining probabilities, or those of the grid nearest to them


@display(
    title="Are perturbed inputs off-distribution?",
    by=("protocol", "model"),
    reads=("off_distribution",),
    cells="inputs",
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model: measures by operator and π."""
    results = view.results("off_distribution")
    blocks = dataset_blocks(results)
    counts = notes.samples(results.select(metric="entropy", part=""))
    below = [notes.text("interval"), notes.about("off_distribution"), counts]
    return grid.table(view, results, COLUMNS, blocks, below, corner="Ablation of random tokens")


def dataset_blocks(results: Results) -> tuple[grid.Block, ...]:
    """Return a block for each dataset: the clean input, then each operator at some π."""
    pis = results.rows["position"].dropna().unique()
    nearest = dict.fromkeys(float(pis[np.abs(pis - pi).argmin()]) for pi in SHOWN)
    present = set(results.rows["operator"])
    lines = {"Clean input": {"part": CLEAN}} | {
        f"{label}, π = {pi:g}": {"operator": operator, "position": pi}
        for operator, label in OPERATORS.items()
        if operator in present
        for pi in nearest
    }
    return grid.blocks(results, grid.each("dataset", results.datasets), lines, COLUMNS)
