"""What every table is made of, without anything of LaTeX or HTML, and numbers of `statistics`.

:mod:`pisoft.tables.writer` writes any :class:`Table` as CSV, LaTeX and HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from pisoft.contracts import OK
from pisoft.statistics.metrics import AVERAGE, METRICS
from pisoft.units import NOTHING

LEVEL = 0.05  # below it, a method counts as told apart from the best
RANKED = 3  # best methods of an average that are marked
VALUE_COLUMNS = ["metric", "dataset", "method", "value", "low", "high", "standard_error"]
VALUE_COLUMNS += ["n", "n_failed", "rank", "best", "p_value", "p_smallest"]


@dataclass(frozen=True)
class Entry:
    """One number as text; a strong one is set in bold.

    Attributes:
        rank: 1, 2 or 3 marks it as best, second or third of its row.
        interval: its 95 % interval as text, if it has one.
        tied: marks it as not distinguishable from the best of its row.
    """

    text: str
    rank: int | None = None
    strong: bool = False
    interval: str | None = None
    tied: bool = False


@dataclass(frozen=True)
class Row:
    """One line of a table; a strong one is set in bold."""

    label: str
    entries: tuple[Entry, ...]
    strong: bool = False


@dataclass(frozen=True)
class Block:
    """Lines under a common heading."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table's layout, without anything of LaTeX or HTML, and its numbers."""

    title: str
    corner: str  # heading of the row labels
    columns: tuple[str, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    values: pd.DataFrame  # full precision: what the CSV holds
    spanner: str | None = None  # heading over all columns


# Numbers --------------------------------------------------------------------------------------


def tidy(
    statistics: pd.DataFrame,
    metrics: Iterable[str],
    methods: Iterable[str],
    datasets: Iterable[str],
) -> pd.DataFrame:
    """Return what the CSV of a table holds: its numbers, one row each, with a value or without."""
    keys = ["metric", "dataset", "method"]
    shown = [list(metrics), [*datasets, AVERAGE], list(methods)]
    wanted = pd.MultiIndex.from_product(shown, names=keys)
    found = statistics.set_index(keys).reindex(wanted).reset_index()[VALUE_COLUMNS]
    return found.fillna({"n": 0, "n_failed": 0}).astype({"n": int, "n_failed": int})


def statistic_block(
    title: str,
    statistics: pd.DataFrame,
    metric: str,
    *,
    methods: Iterable[str],
    datasets: Mapping[str, str],
    average: str,
    decimals: int,
) -> Block:
    """Return a block with a row for each dataset and a strong, ranked one for their average.

    Args:
        title: its heading.
        statistics: rows of `statistics` of one protocol and model.
        metric: key of :data:`METRICS`.
        methods: in the order of the columns.
        datasets: label of each dataset, in the order of the rows.
        average: label of the average.
        decimals: of the numbers.
    """
    rows = [
        Row(label, statistic_entries(statistics, metric, name, methods, decimals))
        for name, label in datasets.items()
    ]
    if len(datasets) < 2:
        return Block(title, tuple(rows))
    entries = statistic_entries(statistics, metric, AVERAGE, methods, decimals)
    ranked = _ranked(entries, statistics, metric, methods)
    return Block(title, (*rows, Row(average, ranked, strong=True)))


def statistic_entries(
    statistics: pd.DataFrame, metric: str, dataset: str, methods: Iterable[str], decimals: int
) -> tuple[Entry, ...]:
    """Return a row's numbers with intervals.

    The best are strong, several if they are equal; what is not told apart from them is tied.
    """
    rows = _of_cell(statistics, metric, dataset, methods)
    best = rows["value"].reindex(rows["best"].dropna().unique()).max()  # NaN: it is not shown
    return tuple(_entry(numbers, best, decimals) for _, numbers in rows.iterrows())


def _of_cell(
    statistics: pd.DataFrame, metric: str, dataset: str, methods: Iterable[str]
) -> pd.DataFrame:
    """Return the statistics of one row of a table, by method, with rows or without."""
    chosen = (statistics["metric"] == metric) & (statistics["dataset"] == dataset)
    return statistics[chosen].set_index("method").reindex(list(methods))


def _entry(numbers: pd.Series, best: float, decimals: int) -> Entry:
    strong = numbers["value"] == best
    return Entry(
        number_text(numbers["value"], decimals),
        strong=bool(strong),
        interval=interval_text(numbers["low"], numbers["high"], min(decimals, 3)),
        tied=bool(numbers["p_value"] >= LEVEL and not strong),
    )


def _ranked(
    entries: tuple[Entry, ...], statistics: pd.DataFrame, metric: str, methods: Iterable[str]
) -> tuple[Entry, ...]:
    """Mark the three best unrounded averages; ties share the better rank."""
    values = _of_cell(statistics, metric, AVERAGE, methods)["value"]
    ranks = values.rank(ascending=METRICS[metric].best == "lowest", method="min")
    return tuple(
        replace(entry, rank=int(rank) if rank <= RANKED else None)
        for entry, rank in zip(entries, ranks, strict=True)
    )


def p_text(p_value: float) -> str:
    """Return a p-value as tables show it; one that is too small for them is said to be small."""
    return "<0.001" if p_value < 0.001 else number_text(p_value, 3)


def number_text(value: float, decimals: int) -> str:
    """Return a number as tables show it."""
    return NOTHING if np.isnan(value) else f"{value:.{decimals}f}"


def interval_text(low: float, high: float, decimals: int) -> str | None:
    """Return `[.12, .34]`; None if there is no interval."""
    if np.isnan(low):
        return None
    ends = (f"{end:.{decimals}f}" for end in (low, high))
    shown = (end.replace("0.", ".", 1) if abs(float(end)) < 1 else end for end in ends)
    return f"[{', '.join(shown)}]"


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
        reach = f" The smallest p-value within reach is {' to '.join(ends)}, by number of samples."
    return (
        "In brackets: 95 % bootstrap interval over samples. Bold: the best of its row. ≈: not "
        "distinguishable from it (paired sign-flip permutation test on the common samples, "
        f"p ≥ {LEVEL}, {FAMILIES}).{reach}"
    )


def average_notes(label: str, datasets: Mapping[str, str]) -> tuple[str, ...]:
    """Say what the average is; of a single dataset, none is shown."""
    if len(datasets) < 2:
        return ()
    return (
        f"{label}: mean over the datasets, each with equal weight. Red 1, blue 2 and green 3 mark "
        "the best, second and third; methods that agree before rounding share a rank.",
    )


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
        notes.append("Failed samples, left out of the means: " + "; ".join(failed) + ".")
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
