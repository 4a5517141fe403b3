"""The table of sequential comparisons: the number of records that each needed."""

from __future__ import annotations

import numpy as np

from pisoft.statistics.decisions import BY_TEST, NOT_SIGNIFICANT, NOT_TESTED, OPEN
from pisoft.statistics.metrics import AUC_METRICS, METRICS, NO_CONTROL
from pisoft.tables import grid, notes
from pisoft.views.view import Number, Results, View, display


def _verdict(number: Number) -> grid.Entry:
    return grid.Entry(number.text)


DECIDED, TESTED = {"part": ""}, {"part": BY_TEST}
COLUMNS = [
    grid.Column("Verdict", DECIDED, _verdict),
    grid.Column("Records", DECIDED, grid.plain(0, "n")),
    grid.Column("Of", TESTED, grid.plain(0, "n")),
    grid.Column("Difference", DECIDED, grid.with_interval),
    grid.Column("p-value", DECIDED, grid.p_value),
    grid.Column("Paired test", TESTED, _verdict),
    grid.Column("p-value of the paired test", TESTED, grid.p_value),
]


@display(
    title="After how many records was each comparison decided?",
    by=("protocol", "model"),
    reads=("decisions",),
    cells="decided",
)
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model."""
    results = view.results_if_any("decisions")
    blocks = cell_blocks(results)
    datasets = view.settings.datasets_on(view.cell["model"])
    left_out = [label for name, label in datasets.items() if name not in results.datasets]
    below = [NO_CONTROL]
    if len(results.rows):
        dependent = f"Left out, because their records are not independent: {', '.join(left_out)}."
        below = [outcome(results), notes.about("decisions"), dependent if left_out else ""]
    return grid.table(view, results, COLUMNS, blocks, below, corner="Comparison")


def cell_blocks(results: Results) -> tuple[grid.Block, ...]:
    """Return the comparisons of one protocol and model, a block per metric and dataset."""
    titles = {
        f"{METRICS[metric].label}, {label}": {"metric": metric, "dataset": name}
        for metric in AUC_METRICS
        for name, label in results.datasets.items()
    }
    pairs = results.rows[["method", "other"]].drop_duplicates().itertuples(index=False)
    lines = {
        f"{results.methods[pair.method]} − {results.methods[pair.other]}": pair._asdict()
        for pair in pairs
    }
    return grid.blocks(results, titles, lines, COLUMNS, sparse=True)


def outcome(results: Results) -> str:
    """State the number of decided comparisons, the records saved, and agreement with the tests."""
    sequence, test = (
        results.select(part=part).rows.set_index(["dataset", "metric", "method", "other"])
        for part in ("", BY_TEST)
    )
    verdicts, by_test = sequence["text"], test["text"].reindex(sequence.index)
    decided, differs = (verdicts != OPEN).sum(), ~by_test.isin([NOT_SIGNIFICANT, NOT_TESTED])
    share = 1 - sequence["n"].sum() / max(test["n"].sum(), 1)
    return notes.text(
        "decided",
        decided=decided,
        count=len(verdicts),
        saved=f"{np.floor(100 * share):.0f}",
        alike=(differs & (verdicts == by_test)).sum(),
        differs=differs.sum(),
    )
