"""The table of how much of methods' scores stays when the model's layers are drawn anew."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.reading import Files, present
from pisoft.tables.layout import (
    Block,
    Entry,
    Row,
    Table,
    dataset_columns,
    interval_text,
    number_text,
    sample_note,
)

UNMOVED = 0.9  # ρ from which on scores are said to have stayed what they were
Settings = DisplaySlice


def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one model."""
    rows = files.rows("sanity", **cell)
    return sanity_table(
        rows,
        where=settings.where(cell),
        methods=present(settings.methods, rows),
        datasets=settings.datasets,
    )


def sanity_table(
    rows: pd.DataFrame, *, where: str, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> Table:
    """Build the table of rank correlations, a block for each dataset.

    Args:
        rows: `sanity` rows of one model.
        where: model, for the title.
        methods: label of each method, in the order of the rows.
        datasets: label of each dataset; those that were not checked are left out.
    """
    known = set(rows["dataset"])
    shown = {name: label for name, label in datasets.items() if name in known}
    layers = sorted(rows["layers"].unique())
    by_cell = rows.set_index(["dataset", "method", "layers"])
    blocks = tuple(
        Block(
            label,
            tuple(
                Row(methods[name], tuple(_entry(by_cell.loc[(dataset, name, k)]) for k in layers))
                for name in methods
            ),
        )
        for dataset, label in dataset_columns(shown).items()
    )
    last = list(dataset_columns(shown))[-1]
    stayed = [
        label
        for name, label in methods.items()
        if by_cell.loc[(last, name, layers[-1]), "value"] >= UNMOVED
    ]
    named = ", ".join(stayed) if stayed else "none"
    return Table(
        title=f"Do scores change with the model? · {where}",
        corner="Method",
        columns=tuple(f"Last {k} layers" if k > 1 else "Last layer" for k in layers),
        blocks=blocks,
        notes=(
            f"Methods whose mean ρ is {UNMOVED} or more with {layers[-1]} layers drawn anew, and "
            f"so do not depend on what these have learnt: {named}.",
            *_NOTES,
            sample_note(rows, shown),
        ),
        values=rows.drop(columns="model"),
    )


def _entry(numbers: pd.Series) -> Entry:
    return Entry(
        number_text(numbers["value"], 2),
        interval=interval_text(numbers["low"], numbers["high"], 2),
    )


_NOTES = (
    "Spearman's ρ between a method's scores and those that it gives for the same answer when so "
    "many of the model's last decoder layers have weights drawn anew (normal, with each weight "
    "matrix's own mean and deviation; embeddings and output head stay); mean over samples. Lower "
    "says more: scores that stay what they were do not explain what the layers do. A low ρ alone "
    "does not make a method faithful.",
    "In brackets: 95 % bootstrap interval over samples. Random scores depend on no model.",
)
