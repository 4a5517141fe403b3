"""The table of the recovery of the used statement, by length and depth."""

from __future__ import annotations

from pisoft.statistics.context_use import ALL, BY_CHANCE, BY_DEPTH, DEPTHS, METRICS
from pisoft.tables import grid, notes
from pisoft.views.labels import RECOVERY
from pisoft.views.view import View, display


@display(
    title="Do methods find the statement that the model used?",
    by=("model",),
    reads=("context_use", "coverage"),
    cells="context_use",
)
def table(view: View) -> grid.Table:
    """Build the table of one model: a block for each metric and dataset, which has one length."""
    results = view.results("context_use")
    columns = [grid.Column("All depths", {"part": ALL, "position": ""}, grid.with_interval)]
    for depth in DEPTHS:
        label = f"{100 * depth - 10:.0f}\N{EN DASH}{100 * depth + 10:.0f} %"
        keys = {"part": BY_DEPTH, "position": depth}
        columns.append(grid.Column(label, keys, grid.with_interval))
    most = results.rows.groupby("method")["n"].sum().idxmax()  # chance is of its samples
    task_of = dict(zip(results.rows["dataset"], results.rows["other"], strict=True))
    blocks: list[grid.Block] = []
    for metric in METRICS:
        titles = {
            f"{RECOVERY[metric]} · {label}": {
                "metric": metric,
                "dataset": dataset,
                "other": task_of[dataset],
            }
            for dataset, label in results.datasets.items()
        }
        lines = grid.each("method", results.methods)
        chance = {"By chance": {"metric": BY_CHANCE[metric], "method": most}}
        blocks += grid.blocks(results, titles, lines | chance, columns, order_by=columns[0])
    coverage = view.results("coverage", metric="top_1_in_evidence", dataset=results.datasets)
    below = [notes.text("interval_of_shares"), notes.about("context_use")]
    return grid.table(view, results, columns, blocks, [*below, *notes.sample_counts(coverage)])
