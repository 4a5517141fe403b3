"""What every table is made of, without anything of LaTeX or HTML, and numbers of `statistics`.

:mod:`pisoft.tables.writer` writes any :class:`Table` as CSV, LaTeX and HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.standing import standing
from pisoft.units import NOTHING, signed

VALUE_COLUMNS = ["metric", "dataset", "method", "value", "low", "high", "standard_error"]
VALUE_COLUMNS += ["n", "n_failed", "rank", "best", "p_value", "p_smallest"]


@dataclass(frozen=True)
class Entry:
    """One number as text; a strong one is set in bold.

    Attributes:
        interval: its 95 % interval as text, if it has one.
        tied: marks it as not distinguishable from the best of its column.
    """

    text: str
    strong: bool = False
    interval: str | None = None
    tied: bool = False


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        family: of the method, in a ranking: a reader may have rows of a family together.
    """

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

    Attributes:
        links: where the page of the scores shows a dataset of a model, by the labels of both; in
            HTML a line below the table lists them, and headings of datasets lead there.
    """

    title: str
    corner: str  # heading of the row labels
    columns: tuple[str, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    values: pd.DataFrame  # full precision: what the CSV holds
    spanners: tuple[tuple[str, int], ...] = ()  # headings over so many columns each, of all columns
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


# Numbers --------------------------------------------------------------------------------------


def dataset_columns(datasets: Mapping[str, str]) -> dict[str, str]:
    """Return labels of the datasets and, of several, of their average."""
    return {**datasets, AVERAGE: "Avg"} if len(datasets) > 1 else dict(datasets)


def statistic_entries(
    statistics: pd.DataFrame, metric: str, dataset: str, decimals: int, methods: Iterable[str]
) -> tuple[Entry, ...]:
    """Return one number of each method with its interval.

    The best are strong, several if they are equal; what is not told apart from them is tied.
    """
    rows = _of_cell(statistics, metric, dataset, methods)
    best, tied = standing(rows)
    return tuple(
        Entry(
            number_text(numbers["value"], decimals),
            strong=method in best,
            interval=interval_text(numbers["low"], numbers["high"], min(decimals, 3)),
            tied=method in tied,
        )
        for method, numbers in rows.iterrows()
    )


def _of_cell(
    statistics: pd.DataFrame, metric: str, dataset: str, methods: Iterable[str]
) -> pd.DataFrame:
    """Return the statistics of one row of a table, by method, with rows or without."""
    chosen = (statistics["metric"] == metric) & (statistics["dataset"] == dataset)
    return statistics[chosen].set_index("method").reindex(list(methods))


def rank_text(rank: float) -> str:
    """Return a rank; ties share the mean of theirs, such as 1.5."""
    return NOTHING if np.isnan(rank) else f"{rank:g}"


def p_text(p_value: float) -> str:
    """Return a p-value as tables show it; one that is too small for them is said to be small."""
    return "<0.001" if p_value < 0.001 else number_text(p_value, 3)


def number_text(value: float, decimals: int) -> str:
    """Return a number as tables show it."""
    return NOTHING if np.isnan(value) else signed(f"{value:.{decimals}f}")


def mean_entry(numbers: pd.Series, decimals: int) -> Entry:
    """Return a mean with its interval: `value`, `low` and `high` of a row."""
    interval = interval_text(numbers["low"], numbers["high"], decimals)
    return Entry(number_text(numbers["value"], decimals), interval=interval)


def interval_text(low: float, high: float, decimals: int) -> str | None:
    """Return `[.12, .34]`; None if there is no interval."""
    if np.isnan(low):
        return None
    ends = (f"{end:.{decimals}f}" for end in (low, high))
    shown = (end.replace("0.", ".", 1) if abs(float(end)) < 1 else end for end in ends)
    return signed(f"[{', '.join(shown)}]")


# Notes ----------------------------------------------------------------------------------------

FAMILIES = "corrected by step-down max-T over all pairs of methods, those with random scores apart"


def sample_note(rows: pd.DataFrame, datasets: Mapping[str, str]) -> str:
    """Say how many samples are in each dataset's means, and how many failed.

    Args:
        rows: `dataset`, `n` and `n_failed` of every mean.
        datasets: label of each dataset.
    """
    counts = rows.groupby("dataset").agg(
        fewest=("n", "min"), most=("n", "max"), failed=("n_failed", "max")
    )
    listed = [
        f"{label} {_range(counts.loc[name])}"
        for name, label in datasets.items()
        if name in counts.index
    ]
    return f"Samples per dataset: {'; '.join(listed)}."


def _range(counts: pd.Series) -> str:
    fewest, most, failed = counts["fewest"], counts["most"], counts["failed"]
    n = f"{most}" if fewest == most else f"{fewest} to {most}, by method"
    return f"{n} (at most {failed} failed)" if failed else n
