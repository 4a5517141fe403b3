"""The table of how far scores predict what the stored draws of random scores have changed."""

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

STRICTEST = "lds_given_count"  # undefined wherever any other is
SHOWN = (STRICTEST, "lds", "faithfulness_correlation", "infidelity")


@display(
    title="Do scores predict the draws of random scores?",
    by=("protocol", "model"),
    reads={"statistics": "summary/statistics", "stored_samples": "summary/stored_samples"},
    cells="drawn",
)
def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one protocol and model."""
    samples = files.rows("stored_samples", metric=STRICTEST, **cell)
    statistics = files.rows("statistics", **cell)
    return stored_draws_table(
        statistics[statistics["metric"].isin(SHOWN)],
        samples,
        where=settings.where(cell),
        methods=present(settings.methods, samples),
        families=settings.families,
        datasets=settings.datasets,
    )


def stored_draws_table(
    statistics: pd.DataFrame,
    samples: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    families: Mapping[str, str],
    datasets: Mapping[str, str],
) -> Table:
    """Build the table of what stored draws say.

    Args:
        statistics: `statistics` rows of one protocol and model and these metrics.
        samples: its `stored_samples` rows of :data:`STRICTEST`, whose failures are listed.
        where: model and protocol, for the title.
        methods: label of each method.
        families: family of each method.
        datasets: label of each dataset, in the order of the columns.
    """
    columns = dataset_columns(datasets)
    return Table(
        title=f"Do scores predict the draws of random scores? · {where}",
        corner="Method",
        columns=("Rank", *columns.values()),
        blocks=statistic_blocks(SHOWN, statistics, columns, 3, methods, families),
        notes=(
            *_NOTES,
            marks(statistics),
            *average_notes(datasets),
            *missing_average_notes(samples, methods, datasets),
            *coverage_notes(samples, methods, datasets),
        ),
        values=tidy(statistics, SHOWN, methods, datasets),
    )


_NOTES = (
    "No forward pass was made for this table. Its masks are those that random scores were "
    "evaluated with, at every π and at α = 1, drawn again from their keys: they favour no other "
    "method, and are the same for all. What is predicted is the change of the target's "
    "log-probability that the run stored for each of them.",
    "LDS (linear datamodeling score): Spearman's ρ, over the masks of a step, between the sum of "
    "the kept tokens' scores and the change. Faithfulness correlation: Pearson's r between the sum "
    "of the removed tokens' scores and the drop. Higher is better. Infidelity: the share of the "
    "squared drop that the best multiple of the removed sum leaves unexplained; lower is better.",
    "Over many π, how many tokens are kept explains much of the change by itself: scores that are "
    "all equal have a high LDS and faithfulness correlation and a low infidelity. LDS given count "
    "is the partial rank correlation given the number of kept tokens, so that only which tokens "
    "are kept counts; scores that know nothing are at 0 on average.",
    "Random is no fair control here, as the masks were drawn with its own scores: its LDS is below "
    "that of other random scores, and given the count it scatters more, about 0 all the same. So "
    "hold LDS given count against 0, and the other numbers of methods against each other.",
    "An answer of several explained tokens counts as the mean over these. Samples that failed are "
    "those without an LDS given count; some may have the other numbers (n is in the CSV).",
)
