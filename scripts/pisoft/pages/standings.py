"""The front page's table: the rank of every method for each model, metric and protocol."""

from __future__ import annotations

import pandas as pd

from pisoft.pages.findings import Names, averages
from pisoft.statistics.standing import standing
from pisoft.tables.layout import Block, Entry, Row, Table, rank_text
from pisoft.units import NOTHING

METRICS = {"auc_pi_soft_ns": "π-Soft-NS", "auc_pi_soft_nc": "π-Soft-NC"}


def standings_table(statistics: pd.DataFrame, names: Names) -> Table:
    """Build the table of ranks, the best method of the first model first.

    Args:
        statistics: rows of kind `statistics`.
        names: labels.
    """
    shown = averages(statistics)
    models = [name for name in names.models if name in set(shown["model"])]
    columns = [
        (model, metric, protocol)
        for model in models
        for metric in METRICS
        for protocol in shown.loc[shown["model"] == model, "protocol"].unique()
    ]
    by_cell = {
        cell: rows.set_index("method")
        for cell, rows in shown.groupby(["model", "metric", "protocol"])
    }
    ranks = pd.DataFrame({cell: by_cell[cell]["rank"] for cell in columns}).reindex(names.methods)
    means = pd.DataFrame({name: ranks[name].mean(axis="columns") for name in models})
    known = means.dropna(how="all").sort_values(list(means), kind="stable").index
    entries = {cell: _entries(by_cell[cell].reindex(known)) for cell in columns}
    missing = [label for name, label in names.methods.items() if name not in known]
    return Table(
        title="Ranks",
        corner="Method",
        columns=tuple(f"{METRICS[metric]}, {protocol}" for _, metric, protocol in columns),
        blocks=(
            Block(
                "",
                tuple(
                    Row(names.methods[str(method)], tuple(entries[cell][place] for cell in columns))
                    for place, method in enumerate(known)
                ),
            ),
        ),
        notes=(_NOTE, *([f"Without a rank: {', '.join(missing)}."] if missing else [])),
        values=ranks,
        spanners=tuple((names.models[name], ranks[name].shape[1]) for name in models),
    )


_NOTE = (
    "Rank by the AUC's mean over the datasets; 1 is best. Bold: best of its column. ≈: not "
    f"significantly different from it. {NOTHING}: not run, or no value. Sorted by the first "
    "model's mean rank."
)


def _entries(rows: pd.DataFrame) -> list[Entry]:
    """Return the rank of each method in a column.

    Args:
        rows: `statistics` rows of one model, metric and protocol, by method.
    """
    best, tied = standing(rows)
    return [
        Entry(rank_text(rank), strong=method in best, tied=method in tied)
        for method, rank in rows["rank"].items()
    ]
