"""The layout of tables that rank the methods."""

from __future__ import annotations

from collections.abc import Sequence

from pisoft.tables import notes
from pisoft.tables.grid import (
    Column,
    Labelled,
    blocks,
    columns,
    each,
    grid_table,
    metrics,
    rank,
    ranked,
)
from pisoft.tables.layout import Block, Table
from pisoft.views import View


def ranking(
    view: View,
    title: str,
    names: Sequence[str],
    counted: str,
    on_metrics: Sequence[str],
    chance: Labelled | None = None,
) -> Table:
    """Return a table with a block for each metric: methods by datasets and their average.

    Args:
        view: its protocol and model.
        title: without model and protocol.
        names: of the metrics.
        counted: metric whose failures are listed.
        on_metrics: notes on the metrics.
        chance: lines of a last block, "By chance", with the keys that each fixes.
    """
    coverage = view.results("coverage", metric=counted)
    coverage = coverage.of(coverage.rows[coverage.rows["text"] == ""])
    below = chance or {}
    shown = [*names, *(keys["metric"] for keys in below.values())]
    results = view.results("statistics", metric=shown)
    by_dataset = columns("dataset", coverage.with_average, ranked)
    grid = [Column("Rank", by_dataset[-1].keys, rank), *by_dataset]
    lines = each("method", coverage.methods)
    made: tuple[Block, ...] = blocks(
        results, metrics(names), lines, grid, order_by=grid[0], families=view.settings.families
    )
    if below:
        made += blocks(results, {"By chance": {}}, below, grid)
    return grid_table(
        view,
        title,
        results,
        grid,
        made,
        [
            *on_metrics,
            notes.marks(results),
            *([notes.clamp(view.settings.clamp)] if counted == "identity" else []),
            *notes.of_average(coverage),
            *notes.of_coverage(coverage),
        ],
    )
