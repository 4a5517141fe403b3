"""The table of insertion and deletion (paper, app:insertion/deletion)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.slices import DisplaySlice
from pisoft.displays import display
from pisoft.statistics.reading import Files, present
from pisoft.tables.layout import (
    Table,
    average_notes,
    coverage_notes,
    dataset_columns,
    marks,
    missing_average_notes,
    statistic_blocks,
    tidy,
)

RANKING_METRICS = ("deletion_auc", "insertion_auc")


@display(
    title="Insertion and deletion",
    by=("model",),
    reads={"statistics": "summary/statistics", "ranking_samples": "summary/ranking_samples"},
    cells="ranking",
)
def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one model."""
    samples = files.rows("ranking_samples", **cell)
    statistics = files.rows("statistics", **cell)
    return insertion_deletion_table(
        statistics[statistics["metric"].isin(RANKING_METRICS)],
        samples,
        where=settings.where(cell),
        methods=present(settings.methods, samples),
        families=settings.families,
        datasets=settings.datasets,
    )


def insertion_deletion_table(
    statistics: pd.DataFrame,
    samples: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    families: Mapping[str, str],
    datasets: Mapping[str, str],
) -> Table:
    """Build the table of insertion and deletion.

    Args:
        statistics: `statistics` rows of one model and these metrics.
        samples: its `ranking_samples` rows.
        where: model, for the title.
        methods: label of each method.
        families: family of each method.
        datasets: label of each dataset, in the order of the columns; those that cannot be ranked
            are named below the table.
    """
    without = samples.dropna(subset="reason").drop_duplicates("dataset")
    left_out = without.set_index("dataset")["reason"]
    ranked = samples[samples["reason"].isna()]
    shown = {name: label for name, label in datasets.items() if name not in left_out.index}
    columns = dataset_columns(shown)
    statistic = (
        "Mean over samples of the share of steps at which the model gives another answer than "
        "for the clean prompt (the preferred label word; with `flip_of: first_token` the first "
        "token). Deletion takes the tokens with the highest scores out of the "
        "prompt, step by step; higher is better. Insertion puts them into a prompt without any; "
        "lower is better."
    )
    return Table(
        title=f"Insertion and deletion · {where}",
        corner="Method",
        columns=("Rank", *columns.values()),
        blocks=statistic_blocks(RANKING_METRICS, statistics, columns, 4, methods, families),
        notes=(
            statistic,
            marks(statistics),
            *average_notes(shown),
            *missing_average_notes(ranked, methods, shown),
            *coverage_notes(ranked, methods, shown),
            *(f"Left out: {datasets[name]}, because {why}." for name, why in left_out.items()),
        ),
        values=tidy(statistics, RANKING_METRICS, methods, shown),
    )
