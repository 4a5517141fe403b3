"""The table of how far the methods find the known evidence."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.slices import DisplaySlice
from pisoft.displays import display
from pisoft.statistics.reading import Files, present
from pisoft.tables.layout import (
    Block,
    Entry,
    Row,
    Table,
    average_notes,
    coverage_notes,
    dataset_columns,
    marks,
    missing_average_notes,
    statistic_blocks,
    statistic_entries,
    tidy,
)
from pisoft.units import NOTHING

FOUND = ("top_1_in_evidence", "recovery_at_k", "mass_on_evidence", "evidence_auprc")
# What scores that know nothing have, and in which numbers.
CHANCE = {"evidence_by_chance": "the first three", "auprc_by_chance": "AUPRC"}


@display(
    title="Do methods find the evidence?",
    by=("model",),
    reads={"statistics": "summary/statistics", "evidence_samples": "summary/evidence_samples"},
    cells="evidence",
)
def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one model."""
    samples = files.rows("evidence_samples", **cell)
    statistics = files.rows("statistics", **cell)
    return evidence_table(
        statistics[statistics["metric"].isin([*FOUND, *CHANCE])],
        samples,
        where=settings.where(cell),
        methods=present(settings.methods, samples),
        families=settings.families,
        datasets=settings.datasets,
    )


def evidence_table(
    statistics: pd.DataFrame,
    samples: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    families: Mapping[str, str],
    datasets: Mapping[str, str],
) -> Table:
    """Build the table of evidence.

    Args:
        statistics: `statistics` rows of one model and these metrics.
        samples: its `evidence_samples` rows.
        where: model, for the title.
        methods: label of each method.
        families: family of each method.
        datasets: label of each dataset, in the order of the columns; those without evidence are
            left out.
    """
    known = set(samples["dataset"])
    shown = {name: label for name, label in datasets.items() if name in known}
    columns = dataset_columns(shown)
    by_chance = (_by_chance(statistics, metric, list(columns)) for metric in CHANCE)
    return Table(
        title=f"Do methods find the evidence? · {where}",
        corner="Method",
        columns=("Rank", *columns.values()),
        blocks=(
            *statistic_blocks(FOUND, statistics, columns, 3, methods, families),
            Block("By chance", tuple(by_chance)),
        ),
        notes=(
            *_NOTES,
            marks(statistics),
            *average_notes(shown),
            *missing_average_notes(samples, methods, shown),
            *coverage_notes(samples, methods, shown),
        ),
        values=tidy(statistics, (*FOUND, *CHANCE), methods, shown),
    )


def _by_chance(statistics: pd.DataFrame, metric: str, columns: list[str]) -> Row:
    """Return what scores that know nothing have, on the samples of the method with most of them."""
    samples = statistics[statistics["metric"] == metric].groupby("method")["n"].sum()
    most = [samples.idxmax()]
    entries = [statistic_entries(statistics, metric, name, 3, most)[0] for name in columns]
    return Row(f"Scores that know nothing: {CHANCE[metric]}", (Entry(NOTHING), *entries))


_NOTES = (
    "Evidence: the words of a record that are known to decide, k of the prompt's m perturbable "
    "tokens. Top-1 in evidence: share of samples whose highest score is of evidence (the pointing "
    "game). Recovery@k: share of the evidence among the k highest scores. Mass on evidence: its "
    "share of the sum of the normalised scores. AUPRC of evidence: area under precision over "
    "recall as the scores' threshold falls (average precision). Higher is better. By chance, the "
    "first three are k / m on average; AUPRC is more, its mean over all orders of the tokens.",
    "Agreement with evidence that people have marked or a generator has planted is plausibility. A "
    "plausible explanation need not be faithful to the model, which may decide by other words.",
    "Equal scores are ordered by lot (the mean over all orders is given), and are one threshold of "
    "AUPRC. An answer of several explained tokens counts as the mean over these. An interval "
    "without width says that all samples agree, not that others would.",
)
