"""Where the variance of a sample's AUC comes from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pisoft.config.slices import DisplaySlice
from pisoft.displays import display
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.reading import Files, present
from pisoft.tables.layout import Block, Entry, Row, Table, number_text
from pisoft.tables.soft import AUC_METRICS
from pisoft.units import NOTHING

SOURCES = {
    "between_samples": "Between samples",
    "monte_carlo": "Draws",
    "numerical": "Rounding",
}


@display(
    title="Where the variance comes from",
    by=("protocol", "model"),
    reads={"variances": "summary/variances"},
)
def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
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
        methods: label of each method, in the order of the rows.
        datasets: label of each dataset, in the order of the blocks.
    """
    numbers = variances.set_index(["metric", "dataset", "method"])[["total", *SOURCES]]
    blocks = tuple(
        Block(
            f"{METRICS[metric].label.rstrip(' ↑')}, {label}",
            tuple(
                _row(methods[name], numbers.reindex([(metric, dataset, name)]).iloc[0])
                for name in methods
            ),
        )
        for metric in AUC_METRICS
        for dataset, label in datasets.items()
    )
    notes = (
        "Deviation: standard deviation of the samples' AUC (π-Soft-NS not clamped). The other "
        "columns are shares of its square, the variance. Draws: the mean Monte Carlo "
        "variance of a sample, which more draws make smaller; with one draw it is estimated from "
        "the roughness of the curve. Rounding: an upper bound, from the distance of the "
        "unperturbed input evaluated again; in 16 bits, from inputs evaluated in float32, too. "
        "Between samples: the rest, which only more samples average out; as a difference of "
        "estimates it can leave 0 to 1.",
        f"{NOTHING}: fewer than two samples could be evaluated.",
    )
    return Table(
        title=f"Where the variance comes from · {where}",
        corner="Method",
        columns=("Deviation", *SOURCES.values()),
        blocks=blocks,
        notes=notes,
        values=variances.drop(columns=["protocol", "model"]),
    )


def _row(label: str, numbers: pd.Series) -> Row:
    shares = (_share_text(numbers[source] / numbers["total"]) for source in SOURCES)
    return Row(label, tuple(map(Entry, (number_text(np.sqrt(numbers["total"]), 4), *shares))))


def _share_text(share: float) -> str:
    """Return a share with two decimals; one that is too small for them is said to be small."""
    return "<0.01" if 0 < share < 0.005 else number_text(share, 2)
