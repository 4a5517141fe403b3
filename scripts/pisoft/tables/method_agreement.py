"""How far methods agree on which tokens matter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.agreement_means import triangle, with_average
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files
from pisoft.tables.layout import Block, Table
from pisoft.tables.matrix import column_numbers, symmetric_rows

STATISTICS = {
    "kendall_tau": "Kendall's τ-b of the scores",
    "top_overlap": "Overlap of the top 10 % tokens",
}


Settings = DisplaySlice


def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one model."""
    return method_agreement_table(
        files.rows("agreement", **cell),
        where=settings.where(cell),
        methods=settings.methods,
        datasets=settings.datasets,
    )


def method_agreement_table(
    agreement: pd.DataFrame, *, where: str, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> Table:
    """Build the table of how far methods agree, means over datasets.

    Args:
        agreement: rows of kind `agreement` of one model.
        where: model, for the title.
        methods: label of each method, in the order of rows and columns.
        datasets: label of each dataset.
    """
    values = with_average(agreement, datasets)
    average = values[values["dataset"] == AVERAGE]
    labels = list(methods.values())
    blocks = []
    for statistic, title in STATISTICS.items():
        below = triangle(average, statistic, list(methods))
        numbers = np.where(np.isnan(below), below.T, below)
        blocks.append(Block(title, symmetric_rows(numbers, labels)))
    return Table(
        title=f"Agreement of methods on tokens · {where}",
        corner="Method",
        columns=column_numbers(labels),
        blocks=tuple(blocks),
        notes=(*_METHOD_NOTES, *_error_notes(average), *_coverage_notes(agreement, datasets)),
        values=values,
    )


_METHOD_NOTES = (
    "Means over the datasets, each with equal weight, of means over samples; a sample's value is "
    "the mean over its explained steps. Neither high nor low agreement is better.",
    "Kendall's τ-b of two methods' scores of the perturbable tokens: 1 for the same order, 0 for "
    "unrelated ones, −1 for opposite ones. Overlap: share of common tokens among the tenth of the "
    "tokens (rounded half up, at least one) that each method scores highest, of equal scores the "
    "earlier token; about 0.1 for unrelated methods.",
    "A step counts for a pair if both methods have scores and neither gives all tokens the same.",
)


def _error_notes(average: pd.DataFrame) -> list[str]:
    """Say how large the standard errors are."""
    largest = average.groupby("statistic")["standard_error"].max().dropna()
    listed = [
        f"{title}: {largest[name]:.2g}" for name, title in STATISTICS.items() if name in largest
    ]
    return [f"Largest standard error of a mean, {'; '.join(listed)}."] if listed else []


def _coverage_notes(agreement: pd.DataFrame, datasets: Mapping[str, str]) -> list[str]:
    """Say how many samples there are, and how many of them a pair lacks at most."""
    counts = agreement.assign(total=agreement["n"] + agreement["n_failed"])
    most = counts.groupby("dataset")[["total", "n_failed"]].max()
    present = [name for name in datasets if name in most.index]
    listed = ", ".join(f"{datasets[name]} {most.loc[name, 'total']}" for name in present)
    failed = [
        f"{datasets[name]} {most.loc[name, 'n_failed']}"
        for name in present
        if most.loc[name, "n_failed"]
    ]
    if not listed:
        return ["No two methods to compare."]
    told = f"Samples without such a step, of the pair with most: {', '.join(failed)}."
    return [f"Samples per dataset: {listed}.", *([told] if failed else [])]
