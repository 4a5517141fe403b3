"""Tables as grids of numbers, without anything of LaTeX or HTML.

The keys of block, line and column address an entry's number; the column determines how it is shown.
:mod:`pisoft.tables.writer` writes any :class:`Table` as CSV, LaTeX and HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from pisoft.formatting import NOTHING, signed
from pisoft.statistics.metrics import LEVEL, METRICS
from pisoft.views.view import MISSING, Keys, Number, Results, View

NOT_DIFFERENT, EQUIVALENT, UNTESTED = "≈", "≡", "?"
Labelled = Mapping[str, Keys]


@dataclass(frozen=True)
class Entry:
    """One number as text; a strong one is set in bold.

    `interval` is the 95 % interval; `mark` is the sign of the comparison with the column's best.
    """

    text: str
    strong: bool = False
    interval: str | None = None
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """One line of a table; in a ranking, readers may group rows by the `family` of their method."""

    label: str
    entries: tuple[Entry, ...]
    family: str = ""


@dataclass(frozen=True)
class Block:
    """Lines under a common heading."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table's layout, without anything of LaTeX or HTML, and its numbers.

    `links` lead to scores, by labels of model and dataset; HTML shows them below the table and at
    dataset headings.
    """

    title: str
    corner: str  # heading of the row labels
    columns: tuple[str, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    values: pd.DataFrame  # full precision: what the CSV holds
    spanners: tuple[tuple[str, int], ...] = ()  # headings over so many columns each, of all columns
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


Show = Callable[[Number], Entry]


@dataclass(frozen=True)
class Column:
    """A column: its heading, the keys that it fixes, and how its numbers are shown.

    `ascending`: rows sorted by it begin with the lowest value.
    """

    label: str
    keys: Keys
    show: Show
    ascending: bool = False


def blocks(
    results: Results,
    titles: Labelled,
    lines: Labelled,
    columns: Sequence[Column],
    order_by: Column | None = None,
    families: Mapping[str, str] | None = None,
    sparse: bool = False,
) -> tuple[Block, ...]:
    """Return the blocks of a grid: lines by columns, of which each entry is a number.

    Titles and labels of lines have the keys that they fix. `order_by` orders the lines by rank, or
    by value if its numbers have none; lines without a value keep their order at the end. `families`
    of the methods let readers group the lines. `sparse` drops lines without any number.
    """
    filled = []
    for title, block in titles.items():
        rows = []
        for label, line in lines.items():
            keys = {**block, **line}
            numbers = [results.number({**keys, **column.keys}) for column in columns]
            if not (sparse and all(number is MISSING for number in numbers)):
                entries = (column.show(n) for column, n in zip(columns, numbers, strict=True))
                family = (families or {}).get(str(keys.get("method")), "")
                sort_key = 0.0
                if order_by:
                    ordering = results.number({**keys, **order_by.keys})
                    sort_key = _sort_key(ordering, order_by.ascending)
                rows.append((sort_key, Row(label, tuple(entries), family)))
        filled.append(Block(title, tuple(row for _, row in sorted(rows, key=itemgetter(0)))))
    return tuple(filled)


def _sort_key(number: Number, ascending: bool) -> float:
    """Return the sort key of a number: its rank if it has one, else its value."""
    value = number.value if ascending else -number.value
    sort_key = value if np.isnan(number.rank) else number.rank
    return np.inf if np.isnan(sort_key) else sort_key


def table(
    view: View,
    results: Results,
    columns: Sequence[Column],
    blocks: Iterable[Block],
    notes: Iterable[str | None],
    corner: str = "Method",
    spanners: Iterable[tuple[str, int]] = (),
) -> Table:
    """Return a table of blocks, whose CSV holds all results; empty notes are left out."""
    return Table(
        title=view.heading,
        corner=corner,
        columns=tuple(column.label for column in columns),
        blocks=tuple(blocks),
        notes=tuple(filter(None, notes)),
        values=results.values,
        spanners=tuple(spanners),
    )


# Blocks, lines and columns ----------------------------------------------------------------------


def each(key: str, labels: Mapping[Any, str], **keys: Any) -> dict[str, Keys]:
    """Return a block or line for each value of a key; duplicate labels get the name as well."""
    labelled: dict[str, Keys] = {}
    for name, label in labels.items():
        labelled[f"{label} ({name})" if label in labelled else label] = {key: name, **keys}
    return labelled


def metrics(names: Iterable[str]) -> dict[str, Keys]:
    """Return a block for each metric."""
    return each("metric", {name: METRICS[name].label for name in names})


def columns(key: str, labels: Mapping[Any, str], show: Show, **keys: Any) -> list[Column]:
    """Return a column for each value of a key."""
    return [Column(label, {key: name, **keys}, show) for name, label in labels.items()]


# How a number is shown --------------------------------------------------------------------------


def rank_text(rank: float) -> str:
    """Return a rank; ties share the mean of theirs, such as 1.5."""
    return NOTHING if np.isnan(rank) else f"{rank:g}"


def p_text(p_value: float) -> str:
    """Return a p-value as tables show it; very small ones are `<0.001`."""
    return "<0.001" if p_value < 0.001 else number_text(p_value, 3)


def number_text(value: float, decimals: int) -> str:
    """Return a number as tables show it; a zero has no sign."""
    return NOTHING if np.isnan(value) else signed(f"{value:z.{decimals}f}")


def interval_text(low: float, high: float, decimals: int) -> str | None:
    """Return `[.12, .34]`; None if there is no interval.

    An end that rounds to zero keeps its sign, to show its side of zero.
    """
    if np.isnan(low):
        return None
    ends = (f"{end:.{decimals}f}" for end in (low, high))
    texts = (end.replace("0.", ".", 1) if abs(float(end)) < 1 else end for end in ends)
    return signed(f"[{', '.join(texts)}]")


def plain(decimals: int, attribute: str = "value") -> Show:
    """Show a number without interval, or another field `of` it, such as `n`."""
    return lambda number: Entry(number_text(getattr(number, attribute), decimals))


def with_interval(number: Number) -> Entry:
    """Show a number with its interval, with decimals chosen by the interval."""
    return Entry(
        number_text(number.value, number.decimals),
        interval=interval_text(number.low, number.high, number.decimals),
    )


def ranked(number: Number) -> Entry:
    """Show a number with its interval, bold if best, else with the sign of its comparison."""
    return replace(with_interval(number), strong=number.is_best, mark=mark(number))


def mark(number: Number) -> str:
    """Return the sign of a ranked number's comparison with the best; none if it is worse."""
    metric = METRICS.get(number.metric)
    if number.is_best or np.isnan(number.rank) or not (metric and metric.compared):
        return ""
    if np.isnan(number.p_adjusted):
        return UNTESTED
    if number.p_equivalence < LEVEL:
        return EQUIVALENT
    return NOT_DIFFERENT if number.p_adjusted >= LEVEL else ""


def rank(number: Number) -> Entry:
    """Show a rank; ties share the mean of theirs, such as 1.5."""
    return Entry(rank_text(number.rank))


def general(number: Number) -> Entry:
    """Show a number without trailing zeros, such as 1.5 or 3."""
    return Entry(rank_text(number.value))


def p_value(number: Number) -> Entry:
    """Show a corrected p-value."""
    return Entry(p_text(number.p_adjusted))
