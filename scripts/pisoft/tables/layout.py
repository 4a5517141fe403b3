"""What every table is made of, without anything of LaTeX or HTML, and numbers of `statistics`.

:mod:`pisoft.tables.writer` writes any :class:`Table` as CSV, LaTeX and HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from pisoft.contracts import OK, meanings
from pisoft.statistics.metrics import AVERAGE, METRICS
from pisoft.statistics.standing import LEVEL, standing
from pisoft.units import NOTHING, signed

Cell = tuple[str, str, int]  # metric, dataset or average, and decimals of a column
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


def tidy(
    statistics: pd.DataFrame,
    metrics: Iterable[str],
    methods: Iterable[str],
    datasets: Mapping[str, str],
) -> pd.DataFrame:
    """Return what the CSV of a table holds: its numbers, one row each, with a value or without."""
    keys = ["metric", "dataset", "method"]
    shown = [list(metrics), list(dataset_columns(datasets)), list(methods)]
    wanted = pd.MultiIndex.from_product(shown, names=keys)
    found = statistics.set_index(keys).reindex(wanted).reset_index()[VALUE_COLUMNS]
    return found.fillna({"n": 0, "n_failed": 0}).astype({"n": int, "n_failed": int})


def statistic_blocks(
    metrics: Sequence[str],
    statistics: pd.DataFrame,
    datasets: Iterable[str],
    decimals: int,
    methods: Mapping[str, str],
    families: Mapping[str, str],
) -> tuple[Block, ...]:
    """Return a block for each metric, with a column for each dataset; see :func:`statistic_block`.

    Args:
        metrics: names, in the order of the blocks.
        statistics: rows of `statistics` of one model.
        datasets: names, in the order of the columns; the last one ranks.
        decimals: of every number.
        methods: label of each method.
        families: family of each method.
    """
    columns = list(datasets)
    return tuple(
        statistic_block(
            METRICS[metric].label,
            statistics,
            [(metric, name, decimals) for name in columns],
            methods,
            families,
        )
        for metric in metrics
    )


def statistic_block(
    title: str,
    statistics: pd.DataFrame,
    columns: Sequence[Cell],
    methods: Mapping[str, str],
    families: Mapping[str, str],
    ranked_by: int = -1,
) -> Block:
    """Return a block with a row for each method: its rank by one of the columns, and all numbers.

    The best method comes first; those without a rank come last, in the order given.

    Args:
        title: its heading.
        statistics: rows of `statistics` of one protocol and model.
        columns: which numbers stand side by side.
        methods: label of each method.
        families: family of each method.
        ranked_by: place of the column.
    """
    entries = [statistic_entries(statistics, *cell, methods) for cell in columns]
    metric, dataset, _ = columns[ranked_by]
    ranks = _of_cell(statistics, metric, dataset, methods)["rank"].to_numpy(dtype=float)
    names = list(methods)
    return Block(
        title,
        tuple(
            Row(
                methods[names[place]],
                (Entry(rank_text(ranks[place])), *(own[place] for own in entries)),
                family=families[names[place]],
            )
            for place in np.argsort(ranks, kind="stable")
        ),
    )


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


def marks(statistics: pd.DataFrame) -> str:
    """Say what brackets, bold and ≈ mean, and how small a p-value can be.

    Args:
        statistics: rows of `statistics`, of the table.
    """
    smallest = statistics["p_smallest"].dropna()
    reach = ""
    if len(smallest):
        ends = dict.fromkeys(f"{end:.1g}" for end in (smallest.min(), smallest.max()))
        by = ", by number of samples" if len(ends) > 1 else ""
        reach = f" The smallest p-value within reach is {' to '.join(ends)}{by}."
    return (
        "In brackets: 95 % bootstrap interval over samples. Bold: the best of its column. ≈: not "
        "distinguishable from it (paired sign-flip permutation test on the common samples, "
        f"p ≥ {LEVEL}, {FAMILIES}).{reach}"
    )


def average_notes(datasets: Mapping[str, str]) -> tuple[str, ...]:
    """Say what the average and the rank are; of a single dataset, no average is shown."""
    shared = "methods that agree before rounding share a rank."
    if len(datasets) < 2:
        return (f"Rank: 1 is best; {shared}",)
    return (f"Avg: mean over the datasets, each with equal weight. Rank: by Avg; {shared}",)


def coverage_notes(
    outcomes: pd.DataFrame, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> list[str]:
    """Say how many samples there are, and which of them failed why."""
    totals, failures = _sample_counts(outcomes)
    present = [name for name in datasets if name in totals.index]
    listed = ", ".join(f"{datasets[name]} {totals.loc[name].max():.0f}" for name in present)
    notes = [f"Samples per dataset: {listed}."]
    failed = []
    for name in present:
        reasons = {m: failures[name, m] for m in methods if (name, m) in failures}
        for reason in dict.fromkeys(reasons.values()):
            affected = [methods[m] for m in methods if reasons.get(m) == reason]
            who = "all methods" if len(affected) == len(methods) else ", ".join(affected)
            failed.append(f"{datasets[name]} ({who}): {reason}")
    if failed:
        why = meanings(outcomes["status"])
        notes.append(f"Failed samples, left out of the means: {'; '.join(failed)} ({why}).")
    else:
        notes.append("No sample failed.")
    return notes


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


def missing_average_notes(
    outcomes: pd.DataFrame, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> list[str]:
    """Say for each method without an average which datasets have no value, and why."""
    _, failures = _sample_counts(outcomes)
    evaluated = outcomes[outcomes["status"] == OK].groupby(["dataset", "method"]).size()
    notes = []
    for method, label in methods.items():
        lacking = [
            f"{dataset_label}: {failures.get((dataset, method), 'no samples')}"
            for dataset, dataset_label in datasets.items()
            if (dataset, method) not in evaluated.index
        ]
        if lacking:
            notes.append(f"No average for {label}, no sample evaluated ({'; '.join(lacking)}).")
    return notes


def _sample_counts(outcomes: pd.DataFrame) -> tuple[pd.DataFrame, dict[tuple[str, str], str]]:
    """Return samples by dataset and method, and per cell its failures in words."""
    keys = ["dataset", "method"]
    single = outcomes.drop_duplicates([*keys, "sample_id"])
    totals = single.groupby(keys).size().unstack()
    failed = single[single["status"] != OK].groupby([*keys, "status"]).size()
    words: dict[tuple[str, str], list[str]] = {}
    for (dataset, method, status), count in failed.items():
        words.setdefault((dataset, method), []).append(f"{count} {status}")
    return totals, {cell: ", ".join(parts) for cell, parts in words.items()}
