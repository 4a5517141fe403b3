"""Where the variance of a sample's AUC comes from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pisoft.config.slices.display import SoftDisplaySlice
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.reading import Files, present
from pisoft.tables.layout import Block, Entry, Row, Table, number_text
from pisoft.tables.soft import AUC_METRICS
from pisoft.units import NOTHING

SOURCES = {
    "between_samples": "between samples",
    "monte_carlo": "draws",
    "numerical": "rounding",
}


Settings = SoftDisplaySlice


def table(files: Files, settings: SoftDisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one protocol and model."""
    variances = files.rows("variances", **cell)
    return variance_table(
        variances,
        where=settings.where(cell),
        methods=present(settings.methods, variances),
        datasets=settings.datasets,
    )


def variance_table(
    variances: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
) -> Table:
    """Build the table of where the variance of a sample's AUC comes from.

    Args:
        variances: `variances` rows of one protocol and model.
        where: model and protocol, for the title.
        methods: label of each method, in the order of the columns.
        datasets: label of each dataset, in the order of the rows.
    """
    numbers = variances.set_index(["metric", "dataset", "method"])
    blocks = tuple(
        Block(
            f"{METRICS[metric].label.rstrip(' ↑')}, {datasets[dataset]}",
            (
                Row("standard deviation", _deviations(numbers, metric, dataset, methods)),
                *(
                    Row(f"share {label}", _shares(numbers, metric, dataset, methods, source))
                    for source, label in SOURCES.items()
                ),
            ),
        )
        for metric in AUC_METRICS
        for dataset in datasets
    )
    notes = (
        "Variance of the samples' AUC (π-Soft-NS not clamped). Draws: the mean Monte Carlo "
        "variance of a sample, which more draws make smaller; with one draw it is estimated from "
        "the roughness of the curve. Rounding: an upper bound, from the distance of the "
        "unperturbed input evaluated again. Between samples: the rest, which only more samples "
        "average out; as a difference of estimates it can leave 0 to 1.",
        f"{NOTHING}: fewer than two samples could be evaluated.",
    )
    return Table(
        title=f"Where the variance comes from · {where}",
        corner="Variance",
        columns=tuple(methods.values()),
        blocks=blocks,
        notes=notes,
        values=variances.drop(columns=["protocol", "model"]),
        spanner="Methods",
    )


def _deviations(
    numbers: pd.DataFrame, metric: str, dataset: str, methods: Mapping[str, str]
) -> tuple[Entry, ...]:
    deviations = np.sqrt(numbers["total"])
    found = (deviations.get((metric, dataset, method), np.nan) for method in methods)
    return tuple(Entry(number_text(value, 4)) for value in found)


def _shares(
    numbers: pd.DataFrame, metric: str, dataset: str, methods: Mapping[str, str], source: str
) -> tuple[Entry, ...]:
    shares = numbers[source] / numbers["total"]
    found = (shares.get((metric, dataset, method), np.nan) for method in methods)
    return tuple(Entry(_share_text(value)) for value in found)


def _share_text(share: float) -> str:
    """Return a share with two decimals; one that is too small for them is said to be small."""
    return "<0.01" if 0 < share < 0.005 else number_text(share, 2)
