"""The table of how sure the ranking of methods is."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.slices import DisplaySlice
from pisoft.displays import display
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files, present
from pisoft.tables.layout import Block, Entry, Row, Table, sample_note
from pisoft.units import NOTHING

METRICS = {"auc_pi_soft_ns": "π-Soft-NS ↑", "auc_pi_soft_nc": "π-Soft-NC ↑"}
_RANK_COLUMNS = ["rank", "rank_low", "rank_high", "mean_rank", "best_share"]
_WITHOUT = "rank_without_"  # and a dataset: a column of the CSV


@display(
    title="Ranks and critical differences",
    by=("protocol", "model"),
    reads={"statistics": "summary/statistics", "leave_one_out": "summary/leave_one_out"},
)
def table(files: Files, settings: DisplaySlice, cell: Mapping[str, str]) -> Table:
    """Build the table of one protocol and model."""
    statistics = files.rows("statistics", **cell)
    return rank_table(
        statistics,
        files.rows("leave_one_out", **cell),
        where=settings.where(cell),
        methods=present(settings.methods, statistics),
        datasets=settings.datasets,
    )


def rank_table(
    statistics: pd.DataFrame,
    leave_one_out: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
) -> Table:
    """Build the table of ranks for the mean over datasets, their intervals, and without a dataset.

    Args:
        statistics: rows of kind `statistics` of one protocol and model.
        leave_one_out: rows of kind `leave_one_out` of the same.
        where: model and protocol, for the title.
        methods: label of each method, in the order of the rows.
        datasets: label of each dataset, in the order of the columns.
    """
    numbers = {
        metric: _ranks(statistics, leave_one_out, metric, methods, datasets) for metric in METRICS
    }
    blocks = tuple(
        Block(title, tuple(_row(methods[name], row) for name, row in numbers[metric].iterrows()))
        for metric, title in METRICS.items()
    )
    of_metrics = statistics[statistics["metric"].isin(METRICS)]
    values = pd.concat(numbers, names=["metric", "method"]).reset_index()
    return Table(
        title=f"Ranks for the mean over datasets · {where}",
        corner="Method",
        columns=(
            "Rank",
            "95 % interval",
            "Best in",
            *(f"Without {label}" for label in datasets.values()),
        ),
        blocks=blocks,
        notes=(*_NOTES, *_missing_notes(numbers, methods), sample_note(of_metrics, datasets)),
        values=values,
    )


def _ranks(
    statistics: pd.DataFrame,
    leave_one_out: pd.DataFrame,
    metric: str,
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
) -> pd.DataFrame:
    """Return a metric's ranks, one line per method."""
    of_metric = (statistics["metric"] == metric) & (statistics["dataset"] == AVERAGE)
    own = statistics[of_metric].set_index("method")[_RANK_COLUMNS].reindex(list(methods))
    left = leave_one_out[leave_one_out["metric"] == metric]
    without = left.pivot(index="method", columns="left_out", values="rank")
    without = without.reindex(index=list(methods), columns=list(datasets)).add_prefix(_WITHOUT)
    return pd.concat([own, without], axis=1).astype("float64")


def _row(label: str, numbers: pd.Series) -> Row:
    low, high = _text(numbers["rank_low"]), _text(numbers["rank_high"])
    interval = NOTHING if NOTHING in (low, high) else f"{low} to {high}"
    share = numbers["best_share"]
    texts = (
        _text(numbers["rank"]),
        interval,
        NOTHING if pd.isna(share) else f"{100 * share:.0f} %",
        *(_text(numbers[name]) for name in numbers.index if str(name).startswith(_WITHOUT)),
    )
    return Row(label, tuple(map(Entry, texts)))


def _text(rank: float) -> str:
    return NOTHING if pd.isna(rank) else f"{rank:g}"


# Notes ----------------------------------------------------------------------------------------

_NOTES = (
    "Rank: of the AUC's mean over the datasets, each with equal weight; 1 is best, and equal "
    "methods share the mean of their ranks. 95 % interval: of the ranks over resamples of the "
    "samples. Best in: share of resamples in which the method is best; it is not corrected for the "
    "number of methods and says how these samples would order them. Whether two methods differ is "
    "what the tests say (≈ in the other tables); that is what to quote.",
    "Without a dataset: rank for the mean over the others. An order that changes with one dataset "
    "is a fact about that dataset.",
)


def _missing_notes(numbers: Mapping[str, pd.DataFrame], methods: Mapping[str, str]) -> list[str]:
    """Name the methods that have no rank."""
    return [
        f"No rank for {methods[str(name)]} by {METRICS[metric]}: no value for some dataset."
        for metric, ranks in numbers.items()
        for name in ranks.index[ranks["rank"].isna()]
    ]
