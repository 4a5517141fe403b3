"""The table of how dense scores are, and whether that goes with faithfulness."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.displays import display
from pisoft.statistics.metrics import AVERAGE, CONTROL
from pisoft.statistics.reading import present
from pisoft.statistics.standing import LEVEL
from pisoft.tables.layout import (
    Block,
    Entry,
    Row,
    Table,
    interval_text,
    number_text,
    p_text,
    sample_note,
)
from pisoft.units import NOTHING
from pisoft.views import View

MEASURES = {"mean_score": "Mean score (1 is dense)", "gini": "Gini index (0 is dense)"}
METRICS = {"auc_pi_soft_ns": "AUC π-Soft-NS ↑", "auc_pi_soft_nc": "AUC π-Soft-NC ↑"}
AMONG = {True: "all methods", False: "without random scores"}


@display(
    title="Are dense scores what is rewarded?",
    by=("protocol", "model"),
    reads={
        "density": "summary/density/{model}",
        "density_correlations": "summary/density_correlations/{model}",
    },
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    files, settings, cell = view.files, view.settings, view.cell
    density = files.rows("density", model=cell["model"])
    return density_table(
        density,
        files.rows("density_correlations", **cell),
        where=settings.where(cell),
        methods=present(settings.methods, density),
        datasets=settings.datasets,
    )


def density_table(
    density: pd.DataFrame,
    correlations: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
) -> Table:
    """Build the table of densities, and of their rank correlations with both AUCs.

    Args:
        density: `density` rows of one model.
        correlations: `density_correlations` rows of one protocol and model.
        where: model and protocol, for the title.
        methods: label of each method, in the order of the rows.
        datasets: label of each dataset, in the order of the rows.
    """
    averages = density[density["dataset"] == AVERAGE].assign(p_adjusted=float("nan"))
    blocks = [Block("Density, mean over datasets", _rows(averages, "method", methods))]
    shown = {**datasets, AVERAGE: "Avg"}
    for metric, label in METRICS.items():
        for with_random, among in AMONG.items():
            own = correlations[
                (correlations["metric"] == metric) & (correlations["with_random"] == with_random)
            ]
            if len(own):
                title = f"Spearman's ρ with {label}, {among}"
                blocks.append(Block(title, _rows(own, "dataset", shown)))
    values = pd.concat({"density": density, "correlation": correlations}, names=["number"])
    missing = [] if CONTROL in methods else ["Random scores are not among the methods."]
    return Table(
        title=f"Density of scores against faithfulness · {where}",
        corner="Method or dataset",
        columns=tuple(MEASURES.values()),
        blocks=tuple(blocks),
        notes=(*_NOTES, *missing, sample_note(pd.concat([density, correlations]), datasets)),
        values=values.reset_index("number").drop(columns=["protocol", "model"]),
    )


def _rows(numbers: pd.DataFrame, key: str, labels: Mapping[str, str]) -> tuple[Row, ...]:
    """Return a line per label: each measure's number with its interval and, if tested, p-value."""
    found = numbers.set_index([key, "measure"])
    return tuple(
        Row(
            label,
            tuple(_entry(found.loc[name, measure]) for measure in MEASURES),
        )
        for name, label in labels.items()
    )


def _entry(number: pd.Series) -> Entry:
    tested = f"p = {p_text(number['p_adjusted'])}".replace("= <", "< ")
    below = (
        interval_text(number["low"], number["high"], 3),
        None if pd.isna(number["p_adjusted"]) else tested,
    )
    return Entry(number_text(number["value"], 3), interval=", ".join(filter(None, below)) or None)


_NOTES = (
    "Mean score: mean of the normalised scores of a step's tokens. Gini index of the same: 0 if "
    "all are equal, 1/3 if they are spread evenly over 0 to 1, near 1 if few tokens have nearly "
    "all. Mean over a sample's steps, over samples, and over the datasets with equal weight; "
    "neither has a better direction.",
    "Spearman's ρ: within each sample, between the methods' density and their AUC, so that what "
    "makes a sample hard for all methods drops out; mean over the samples with at least three "
    "methods. If dense scores were what the metric rewards, ρ would be near 1 with the mean score "
    "and near −1 with the Gini index.",
    "In brackets: 95 % bootstrap interval over samples. p: two-sided sign-flip permutation test of "
    "a mean ρ of 0, corrected by step-down max-T over all tests of the metric (below "
    f"{LEVEL}: told apart from 0). {NOTHING}: no value. The CSV has every dataset's densities.",
)
