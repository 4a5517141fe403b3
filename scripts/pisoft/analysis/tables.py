"""The paper's tables, each a neutral :class:`Table`: labels, texts, ranks, notes, tidy numbers.

:mod:`pisoft.analysis.table_writer` writes any of them as CSV, LaTeX and HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from pisoft.analysis.summary import averages
from pisoft.contracts import OK

NOTHING = "\N{EN DASH}"  # shown where there is no value
Best = Literal["highest", "lowest"]
AVERAGE = "average"  # dataset column of the CSV for the mean over datasets
AUC_BLOCKS = {"auc_pi_soft_ns": "AUC π-Soft-NS ↑", "auc_pi_soft_nc": "AUC π-Soft-NC ↑"}
ORIGINAL_ROWS = {
    "soft_ns": ("Soft-NS ↑", 3),
    "soft_nc": ("Soft-NC ↑", 3),
    "expected_retained": ("E[R]", 1),
}
RANKING_BLOCKS: dict[str, tuple[str, Best]] = {
    "deletion_auc": ("Deletion ↑", "highest"),
    "insertion_auc": ("Insertion ↓", "lowest"),
}
ACCURACY_COLUMNS = {
    "accuracy": ("Accuracy ↑", 3),
    "greedy_is_label": ("Greedy is label", 3),
    "truncated": ("Truncated", 0),
    "mean_prompt_tokens": ("Prompt tokens", 1),
    "mean_output_tokens": ("Output tokens", 1),
    "n": ("n", 0),
    "n_failed": ("n failed", 0),
}


@dataclass(frozen=True)
class Entry:
    """One number as text; a strong one is set in bold.

    `rank` 1, 2 or 3 marks it as best, second or third of its row.
    """

    text: str
    rank: int | None = None
    strong: bool = False


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


def auc_table(
    samples: pd.DataFrame,
    grid: Sequence[float],
    *,
    where: str,
    number_type: str,
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
    clamp: bool,
) -> Table:
    """Build the table of areas under the π-Soft curves (paper, tab:llama-soft).

    Args:
        samples: `soft_samples` rows of one protocol and model.
        grid: retaining probabilities of the curves.
        where: model and protocol, for the title.
        number_type: of the model's weights and activations, for the noise floor.
        methods: label of each method, in the order of the columns.
        datasets: label of each dataset, in the order of the rows.
        clamp: whether π-Soft-NS is clamped at 0.
    """
    values = _with_averages(samples, tuple(AUC_BLOCKS), methods, datasets)
    rows = {**datasets, AVERAGE: "Avg"}
    blocks = tuple(
        _averaged_block(title, _matrix(values, metric, rows, methods), rows, 3, "highest")
        for metric, title in AUC_BLOCKS.items()
    )
    statistic = (
        "Mean over samples of the area under the curve (trapezoid) on the grid π = "
        f"{min(grid):g}, …, {max(grid):g} ({len(grid)} values), so a curve that is 1 everywhere "
        f"has {max(grid) - min(grid):.3g}. Higher is better."
    )
    return Table(
        title=f"AUC of π-Soft-NS and π-Soft-NC · {where}",
        corner="Dataset",
        columns=tuple(methods.values()),
        blocks=blocks,
        notes=(
            statistic,
            _clamp_note(clamp),
            f"Avg: {_AVERAGE_MEANING}",
            *_noise_notes(samples, number_type),
            *_missing_average_notes(samples, methods, datasets),
            *_coverage_notes(samples, methods, datasets),
        ),
        values=values,
        spanner="Methods",
    )


def original_table(
    samples: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
    clamp: bool,
) -> Table:
    """Build the table of the original Soft-NS and Soft-NC with E[R] (paper, `llama verify`).

    Args:
        samples: `soft_samples` rows of one protocol and model.
        where: model and protocol, for the title.
        methods: label of each method, in the order of the columns.
        datasets: label of each dataset, in the order of the blocks.
        clamp: whether Soft-NS is clamped at 0.
    """
    values = _tidy(averages(samples), tuple(ORIGINAL_ROWS), methods, datasets)
    numbers = {metric: _matrix(values, metric, datasets, methods) for metric in ORIGINAL_ROWS}
    blocks = tuple(
        Block(
            title,
            tuple(
                _row(label, numbers[metric].loc[name], decimals)
                for metric, (label, decimals) in ORIGINAL_ROWS.items()
            ),
        )
        for name, title in datasets.items()
    )
    statistic = (
        "Means over samples, scores used as they are (no calibration). Higher is better for "
        "Soft-NS and Soft-NC. E[R] is the expected number of retained tokens, the sum of the "
        "scores: methods that retain different numbers of tokens are not comparable here."
    )
    return Table(
        title=f"Original Soft-NS and Soft-NC · {where}",
        corner="Metric",
        columns=tuple(methods.values()),
        blocks=blocks,
        notes=(statistic, _clamp_note(clamp), *_coverage_notes(samples, methods, datasets)),
        values=values,
        spanner="Methods",
    )


def insertion_deletion_table(
    samples: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
) -> Table:
    """Build the table of insertion and deletion (paper, app:insertion/deletion).

    Args:
        samples: `ranking_samples` rows of one model.
        where: model, for the title.
        methods: label of each method, in the order of the columns.
        datasets: label of each dataset, in the order of the rows; those that cannot be ranked are
            named below the table.
    """
    without = samples.dropna(subset="reason").drop_duplicates("dataset")
    left_out = without.set_index("dataset")["reason"]
    ranked = samples[samples["reason"].isna()]
    shown = {name: label for name, label in datasets.items() if name not in left_out.index}
    values = _with_averages(ranked, tuple(RANKING_BLOCKS), methods, shown)
    rows = {**shown, AVERAGE: "Average"}
    blocks = tuple(
        _averaged_block(title, _matrix(values, metric, rows, methods), rows, 4, best)
        for metric, (title, best) in RANKING_BLOCKS.items()
    )
    statistic = (
        "Mean over samples of the share of steps at which the model prefers another label word "
        "than for the clean prompt. Deletion takes the tokens with the highest scores out of the "
        "prompt, step by step; higher is better. Insertion puts them into a prompt without any; "
        "lower is better."
    )
    return Table(
        title=f"Insertion and deletion · {where}",
        corner="Dataset",
        columns=tuple(methods.values()),
        blocks=blocks,
        notes=(
            statistic,
            f"Average: {_AVERAGE_MEANING}",
            *_missing_average_notes(ranked, methods, shown),
            *_coverage_notes(ranked, methods, shown),
            *(f"Left out: {datasets[name]}, because {why}." for name, why in left_out.items()),
        ),
        values=values,
        spanner="Methods",
    )


def accuracy_table(
    rows: pd.DataFrame, *, models: Mapping[str, str], datasets: Mapping[str, str]
) -> Table:
    """Build the table of what the models answered.

    Args:
        rows: rows of kind `accuracy`.
        models: label of each model, in the order of the blocks.
        datasets: label of each dataset, in the order of the rows.
    """
    numbers = rows.set_index(["model", "dataset"])[list(ACCURACY_COLUMNS)]
    numbers = numbers.reindex(pd.MultiIndex.from_product([models, datasets])).astype(np.float64)
    blocks = tuple(
        Block(
            title,
            tuple(
                Row(label, tuple(_accuracy_entries(numbers.loc[(model, dataset)])))
                for dataset, label in datasets.items()
            ),
        )
        for model, title in models.items()
    )
    notes = (
        "Over the n samples that could be evaluated. Accuracy: share whose preferred label word "
        "is the right one. Greedy is label: share whose most probable next token, over the whole "
        f"vocabulary, begins a label word. Both are {NOTHING} for open generation.",
        "Truncated: prompts shortened to fit. Prompt and output tokens: means per sample. "
        "n failed: samples left out of all means.",
    )
    return Table(
        title="Accuracy and lengths",
        corner="Dataset",
        columns=tuple(label for label, _ in ACCURACY_COLUMNS.values()),
        blocks=blocks,
        notes=notes,
        values=_accuracy_values(rows),
    )


# Numbers --------------------------------------------------------------------------------------


def _tidy(
    cells: pd.DataFrame,
    metrics: Sequence[str],
    methods: Iterable[str],
    datasets: Iterable[str],
) -> pd.DataFrame:
    """Return metric, dataset, method, value, n, n_failed of every cell, with rows or without."""
    keys = ["metric", "dataset", "method"]
    wanted = pd.MultiIndex.from_product([metrics, list(datasets), list(methods)], names=keys)
    found = cells.set_index(keys)[["value", "n", "n_failed"]].reindex(wanted).reset_index()
    return found.fillna({"n": 0, "n_failed": 0}).astype({"n": int, "n_failed": int})


def _with_averages(
    samples: pd.DataFrame,
    metrics: Sequence[str],
    methods: Iterable[str],
    datasets: Iterable[str],
) -> pd.DataFrame:
    """Return the cells of :func:`_tidy` and the means over datasets, metric by metric."""
    cells = _tidy(averages(samples), metrics, methods, datasets)
    values = pd.concat([cells, _over_datasets(cells)], ignore_index=True)
    order = {metric: position for position, metric in enumerate(metrics)}
    return values.sort_values("metric", key=lambda names: names.map(order), kind="stable")


def _over_datasets(values: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over datasets per metric and method; NaN if a dataset has no value."""
    groups = values.groupby(["metric", "method"], sort=False)
    means = groups.agg(
        value=("value", lambda column: column.mean(skipna=False)),
        n=("n", "sum"),
        n_failed=("n_failed", "sum"),
    )
    return means.reset_index().assign(dataset=AVERAGE)[values.columns]


def _matrix(
    values: pd.DataFrame, metric: str, datasets: Iterable[str], methods: Iterable[str]
) -> pd.DataFrame:
    """Return one metric as datasets by methods."""
    chosen = values[values["metric"] == metric]
    matrix = chosen.pivot(index="dataset", columns="method", values="value")
    return matrix.reindex(index=list(datasets), columns=list(methods))


def _accuracy_values(rows: pd.DataFrame) -> pd.DataFrame:
    """Return metric, model, dataset, value, n, n_failed."""
    measured = [name for name in ACCURACY_COLUMNS if name not in ("n", "n_failed")]
    keys = ["model", "dataset", "n", "n_failed"]
    tidy = rows.melt(id_vars=keys, value_vars=measured, var_name="metric")
    return tidy[["metric", "model", "dataset", "value", "n", "n_failed"]]


# Layout ---------------------------------------------------------------------------------------


def _text(value: float, decimals: int) -> str:
    return NOTHING if np.isnan(value) else f"{value:.{decimals}f}"


def _row(label: str, values: pd.Series, decimals: int) -> Row:
    return Row(label, tuple(Entry(_text(value, decimals)) for value in values))


def _averaged_block(
    title: str, numbers: pd.DataFrame, labels: Mapping[str, str], decimals: int, best: Best
) -> Block:
    """Return a block with a row for each dataset and a ranked one for their average."""
    rows = [_row(labels[name], numbers.loc[name], decimals) for name in labels if name != AVERAGE]
    average = _ranked_row(labels[AVERAGE], numbers.loc[AVERAGE], decimals, best)
    return Block(title, (*rows, average))


def _ranked_row(label: str, values: pd.Series, decimals: int, best: Best) -> Row:
    """Return a strong row whose three best unrounded values are marked; ties share a rank."""
    ranks = values.rank(ascending=best == "lowest", method="min")
    entries = tuple(
        Entry(_text(value, decimals), int(rank) if rank <= 3 else None)
        for value, rank in zip(values, ranks, strict=True)
    )
    return Row(label, entries, strong=True)


def _accuracy_entries(values: pd.Series) -> Iterable[Entry]:
    for name, (_, decimals) in ACCURACY_COLUMNS.items():
        yield Entry(_text(values[name], decimals))


# Notes ----------------------------------------------------------------------------------------

_AVERAGE_MEANING = (
    "mean over the datasets, each with equal weight. Red 1, blue 2 and green 3 mark the best, "
    "second and third; methods that agree before rounding share a rank."
)


def _clamp_note(clamp: bool) -> str:
    """Say whether Soft-NS is clamped."""
    if clamp:
        return "Soft-NS is clamped at 0 for every step, after averaging over its draws."
    return (
        "Soft-NS is not clamped at 0, because a clamped mean would depend on the number of draws. "
        "It may be negative, and a sample whose zero baseline hardly changes the prediction (small "
        "H₀) can then rule a mean."
    )


def _noise_notes(samples: pd.DataFrame, number_type: str) -> list[str]:
    """Say how far rounding alone moves the unperturbed prediction, against the zero baseline."""
    ok = samples[samples["status"] == OK]
    found = {name: ok.loc[ok["metric"] == name, "value"] for name in ("identity", "h0")}
    if found["identity"].empty:
        return []
    return [
        f"Noise floor ({number_type}): the unperturbed input, evaluated like a perturbed one, is "
        f"at distance {found['identity'].mean():.1g} on average and "
        f"{found['identity'].max():.1g} at most; the zero baseline is at "
        f"{found['h0'].mean():.2g} on average."
    ]


def _coverage_notes(
    samples: pd.DataFrame, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> list[str]:
    """Say how many samples there are, and which of them failed why."""
    totals, failures = _sample_counts(samples)
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


def _missing_average_notes(
    samples: pd.DataFrame, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> list[str]:
    """Say for each method without an average which datasets have no value, and why."""
    _, failures = _sample_counts(samples)
    evaluated = samples[samples["status"] == OK].groupby(["dataset", "method"]).size()
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


def _sample_counts(samples: pd.DataFrame) -> tuple[pd.DataFrame, dict[tuple[str, str], str]]:
    """Return samples by dataset and method, and per cell its failures in words."""
    keys = ["dataset", "method"]
    single = samples.drop_duplicates([*keys, "sample_id"])
    totals = single.groupby(keys).size().unstack()
    failed = single[single["status"] != OK].groupby([*keys, "status"]).size()
    words: dict[tuple[str, str], list[str]] = {}
    for (dataset, method, status), count in failed.items():
        words.setdefault((dataset, method), []).append(f"{count} {status}")
    return totals, {cell: ", ".join(parts) for cell, parts in words.items()}
