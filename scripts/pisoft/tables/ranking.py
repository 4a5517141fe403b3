"""The layout of tables that rank the methods."""

from __future__ import annotations

from collections.abc import Sequence

from pisoft.tables import grid, notes
from pisoft.views.view import View


def ranking(
    view: View,
    names: Sequence[str],
    counted: str,
    *on_metrics: str,
    chance: grid.Labelled | None = None,
) -> grid.Table:
    """Return a table with a block for each metric: methods by datasets and their average.

    The `counted` metric gives the failures. `chance` holds the lines of a last block.
    """
    every = view.results("coverage", metric=counted)
    coverage = every.with_rows(every.rows[every.rows["text"] == ""])
    below = chance or {}
    listed = [*names, *(keys["metric"] for keys in below.values())]
    results = view.results("statistics", metric=listed)
    by_dataset = grid.columns("dataset", coverage.with_average, grid.ranked)
    rank = grid.Column("Rank", by_dataset[-1].keys, grid.rank)
    titles, lines = grid.metrics(names), grid.each("method", coverage.methods)
    columns, families = [rank, *by_dataset], view.settings.families
    blocks = grid.blocks(results, titles, lines, columns, order_by=rank, families=families)
    if below:
        blocks += grid.blocks(results, {"By chance": {}}, below, columns)
    clamp = notes.clamp(view.settings.clamp) if counted == "identity" else ""
    marks = notes.marks(results, view.settings.equivalence_margin)
    counts = [*notes.averages(coverage), *notes.sample_counts(coverage), *notes.left_out(every)]
    return grid.table(view, results, columns, blocks, [*on_metrics, *marks, clamp, *counts])
