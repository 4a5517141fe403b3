"""The table of how far methods are on the way from random scores to the oracle."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.reading import Files, present
from pisoft.tables.layout import Block, Entry, Row, Table, interval_text, number_text, sample_note

SHOWN = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "soft_nc", "deletion_auc", "insertion_auc")
Settings = DisplaySlice


def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one model."""
    rows = files.rows("oracle_scale", **cell)
    return oracle_scale_table(
        rows,
        where=settings.where(cell),
        methods=present(settings.methods, rows),
        datasets=settings.datasets,
    )


def oracle_scale_table(
    rows: pd.DataFrame, *, where: str, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> Table:
    """Build the table of shares of the way.

    Args:
        rows: `oracle_scale` rows of one model.
        where: model, for the title.
        methods: label of each method and control, in the order of the rows.
        datasets: label of each dataset; those without an oracle are left out.
    """
    rows = rows.assign(protocol=rows["protocol"].fillna(""))
    shown = {name: label for name, label in datasets.items() if name in set(rows["dataset"])}
    known = set(zip(rows["protocol"], rows["metric"], strict=True))
    protocols = dict.fromkeys(sorted(rows["protocol"].unique(), key=lambda name: name or "~"))
    columns = [(of, name) for of in protocols for name in SHOWN if (of, name) in known]
    by_cell = rows.set_index(["dataset", "protocol", "metric", "method"])
    blocks = tuple(
        Block(
            label,
            tuple(
                Row(methods[name], tuple(_entry(by_cell, (dataset, *key, name)) for key in columns))
                for name in methods
            ),
        )
        for dataset, label in shown.items()
    )
    labels = [METRICS[name].label.rstrip(" ↑↓") for _, name in columns]
    return Table(
        title=f"From random scores to the oracle · {where}",
        corner="Method",
        columns=tuple(labels),
        blocks=blocks,
        notes=(*_NOTES, sample_note(rows, shown)),
        values=rows.drop(columns="model"),
        spanners=tuple(
            (f"{of} routing" if of else "any routing", [key[0] for key in columns].count(of))
            for of in protocols
        ),
    )


def _entry(by_cell: pd.DataFrame, key: tuple[str, ...]) -> Entry:
    if key not in by_cell.index:
        return Entry(number_text(float("nan"), 2))
    numbers = by_cell.loc[key]
    return Entry(
        number_text(numbers["value"], 2),
        interval=interval_text(numbers["low"], numbers["high"], 2),
    )


_NOTES = (
    "Share of the way from random scores to the oracle, which knows the evidence: the difference "
    "of the method's mean to that of random scores, divided by the oracle's; higher is better for "
    "every metric. 0 is no better than random scores, 1 as good as the oracle; a model that "
    "decides by other tokens than the evidence lets methods come out above 1. In brackets: 95 % "
    "bootstrap interval over samples. No value: the oracle is not told apart from random scores.",
)
