"""The table of what methods gain over their own scores, shuffled."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.slices import DisplaySlice
from pisoft.displays import display
from pisoft.statistics.metrics import AVERAGE, METRICS
from pisoft.statistics.reading import Files, of_cell, present
from pisoft.statistics.standing import LEVEL
from pisoft.statistics.twins import GAIN
from pisoft.statistics.twins import METRICS as SHOWN
from pisoft.tables.layout import (
    Block,
    Entry,
    Row,
    Table,
    dataset_columns,
    mean_entry,
    number_text,
    p_text,
    sample_note,
)


@display(
    title="Gain over permuted twins",
    by=("protocol", "model"),
    reads={"twins": "summary/twins"},
    cells="twin",
)
def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one protocol and model."""
    rows = of_cell(files.rows("twins"), cell)
    return twins_table(
        rows,
        where=settings.where(cell),
        methods=present(settings.methods, rows),
        datasets=settings.datasets,
    )


def twins_table(
    rows: pd.DataFrame, *, where: str, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> Table:
    """Build the table of gains over permuted twins, best first.

    Args:
        rows: `twins` rows of one protocol and model.
        where: model and protocol, for the title.
        methods: label of each method.
        datasets: label of each dataset; those without twins are left out.
    """
    known = set(rows["dataset"])
    shown = {name: label for name, label in datasets.items() if name in known}
    columns = dataset_columns(shown)
    by_cell = rows.set_index(["metric", "part", "dataset", "method"]).sort_index()
    blocks = []
    for metric in SHOWN:
        gains = by_cell.loc[(metric, GAIN, AVERAGE), "value"]
        order = gains.sort_values(ascending=False, na_position="last").index
        own = tuple(
            Row(methods[name], _entries(by_cell, metric, name, list(columns)))
            for name in order
            if name in methods
        )
        blocks.append(Block(METRICS[metric].label, own))
    return Table(
        title=f"Gain over permuted twins · {where}",
        corner="Method",
        columns=("Own", "Twins", *(f"Gain, {label}" for label in columns.values()), "p"),
        blocks=tuple(blocks),
        notes=(*_NOTES, sample_note(rows[rows["part"] == GAIN], shown)),
        values=rows.drop(columns=["protocol", "model"]),
    )


def _entries(
    by_cell: pd.DataFrame, metric: str, method: str, columns: list[str]
) -> tuple[Entry, ...]:
    whole = {part: by_cell.loc[(metric, part, columns[-1], method)] for part in ("own", "twin")}
    gains = [by_cell.loc[(metric, GAIN, dataset, method)] for dataset in columns]
    return (
        *(Entry(number_text(numbers["value"], 3)) for numbers in whole.values()),
        *(mean_entry(numbers, 3) for numbers in gains),
        Entry(p_text(gains[-1]["p_adjusted"])),
    )


_NOTES = (
    "A permuted twin has a method's scores, shuffled over the tokens: the same calibrated scores, "
    "and as many tokens kept, without the choice of tokens. The gain is what that choice is worth; "
    "higher is better, and 0 says that the method's value is that of the shape of its scores "
    "alone. Own and Twins are the means that the last gain is the difference of, over the samples "
    "that have both.",
    "In brackets: 95 % bootstrap interval over samples. p: two-sided paired sign-flip permutation "
    "test of the last gain against 0, corrected by step-down max-T over all methods of the metric; "
    f"below {LEVEL} a gain is told apart from 0. All twins of a sample share their permutations.",
)
