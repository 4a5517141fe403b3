"""The table of how far the order of the methods changes when a choice is made otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.displays import display
from pisoft.statistics.alternatives import ALTERNATIVES
from pisoft.statistics.metrics import METRICS
from pisoft.tables.layout import (
    Block,
    Entry,
    Row,
    Table,
    dataset_columns,
    interval_text,
    number_text,
    sample_note,
)
from pisoft.units import NOTHING
from pisoft.views import View

SHOWN = ("auc_pi_soft_ns", "auc_pi_soft_nc")


@display(
    title="Would other choices change the order?",
    by=("protocol", "model"),
    reads={"sensitivity": "summary/sensitivity"},
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    files, settings, cell = view.files, view.settings, view.cell
    return sensitivity_table(
        files.rows("sensitivity", **cell),
        where=settings.where(cell),
        methods=settings.methods_on(cell["model"]),
        datasets=settings.datasets,
    )


def sensitivity_table(
    rows: pd.DataFrame, *, where: str, methods: Mapping[str, str], datasets: Mapping[str, str]
) -> Table:
    """Build the table of τ by alternative and dataset, a block per metric.

    Args:
        rows: `sensitivity` rows of one protocol and model.
        where: model and protocol, for the title.
        methods: label of each method.
        datasets: label of each dataset, in the order of the columns.
    """
    columns = dataset_columns(datasets)
    last = list(columns)[-1]
    of_last = rows[rows["dataset"] == last]
    return Table(
        title=f"Order of the methods with one choice made otherwise · {where}",
        corner="What is otherwise",
        columns=(*columns.values(), "Another is best", "Largest change of rank"),
        blocks=tuple(
            Block(
                METRICS[metric].label,
                _rows(rows[rows["metric"] == metric], list(columns), methods),
            )
            for metric in SHOWN
        ),
        notes=(
            *_NOTES,
            f"The last two columns are of {columns[last]}. Methods in an order: "
            f"{_span(of_last['n_methods'])}.",
            *_missing(of_last),
            sample_note(rows, datasets),
        ),
        values=rows.drop(columns=["protocol", "model"]),
    )


def _rows(rows: pd.DataFrame, datasets: list[str], methods: Mapping[str, str]) -> tuple[Row, ...]:
    """Return a line per alternative that applies to a metric."""
    found = rows.set_index(["alternative", "dataset"])
    return tuple(
        Row(
            label,
            (
                *(_tau(found.loc[name, dataset]) for dataset in datasets),
                Entry(_best_text(found.loc[name, datasets[-1]], methods)),
                Entry(_change_text(found.loc[name, datasets[-1]])),
            ),
        )
        for name, label in ALTERNATIVES.items()
        if name in set(rows["alternative"])
    )


def _tau(row: pd.Series) -> Entry:
    return Entry(
        number_text(row["kendall_tau"], 2), interval=interval_text(row["low"], row["high"], 2)
    )


def _best_text(row: pd.Series, methods: Mapping[str, str]) -> str:
    """Return the method that is best instead; of several orders, in how many another one is."""
    if pd.isna(row["best_changes"]):
        return NOTHING
    if pd.isna(row["best"]):
        return f"in {100 * row['best_changes']:.0f} %"
    if row["best_changes"] == 0:
        return "no"
    return ", ".join(methods.get(name, name) for name in row["best"].split(", "))


def _change_text(row: pd.Series) -> str:
    return NOTHING if pd.isna(row["rank_change"]) else f"{row['rank_change']:.3g}"


def _span(counts: pd.Series) -> str:
    """Return the least and the most of some counts, those of 0 left out."""
    known = counts[counts > 0]
    if known.empty:
        return "0"
    ends = dict.fromkeys((known.min(), known.max()))
    return " to ".join(map(str, ends))


def _missing(rows: pd.DataFrame) -> list[str]:
    """Say which alternatives have no number, and why."""
    without = rows.dropna(subset="reason").drop_duplicates(["alternative", "reason"])
    if without.empty:
        return []
    by_reason = without.groupby("reason", sort=False)["alternative"]
    listed = (
        f"{', '.join(ALTERNATIVES[name] for name in names)} ({reason})"
        for reason, names in by_reason
    )
    return [f"No number: {'; '.join(listed)}."]


_NOTES = (
    "Kendall's τ-b between the run's order of the methods by their mean AUC and their order with "
    "one choice of the metric made otherwise, all else as in the run and from the same stored "
    "draws, or, where tokens are taken away otherwise, by the same masks: 1 says that all methods "
    "are in the same order, 0 that the two orders have nothing to "
    "do with each other, −1 that one is the other reversed. It says nothing of how large the "
    "differences between methods are.",
    "In brackets: 95 % bootstrap interval over samples, both orders taken anew of each resample, "
    "the same resamples in every row. Resamples repeat samples, so their orders are less certain "
    "than the run's: an interval reaches further down than up.",
    "Half of the samples, of the draws and a single draw are parts of what they are compared "
    "with. Half of the samples is a yardstick: the mean over 20 random halves says how far the "
    "order moves by which samples were drawn alone; what has a higher τ matters less than that.",
    "Total variation is stored for the draws but not for the zero baseline, so its mean is neither "
    "divided by H₀ nor clamped; hold its τ against that of mean H, treated alike. Ratio of means "
    "keeps the run's clamp; the table of other statistics does not clamp it.",
    "These are the samples of one model: they say nothing of other models, datasets or prompts. "
    f"{NOTHING}: no value.",
)
