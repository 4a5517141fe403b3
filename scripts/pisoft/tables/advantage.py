"""The table of each method's advantage over random scores in both halves of the π grid."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.base import Clamp
from pisoft.displays import display
from pisoft.statistics.metrics import AVERAGE, NO_CONTROL
from pisoft.statistics.reading import of_cell, present
from pisoft.statistics.standing import LEVEL
from pisoft.tables.layout import (
    Block,
    Entry,
    Row,
    Table,
    mean_entry,
    p_text,
    sample_note,
)
from pisoft.units import NOTHING
from pisoft.views import View

METRICS = {"pi_soft_ns": "π-Soft-NS ↑", "pi_soft_nc": "π-Soft-NC ↑"}
HALVES = {
    "lower": "π ≤ 0.5",
    "upper": "π > 0.5",
    "upper_minus_lower": "Larger for π > 0.5 by",
}
VERDICTS = {  # by whether it is better than random scores in the lower and in the upper half
    (True, True): "in both halves",
    (False, True): "only for π > 0.5",
    (True, False): "only for π ≤ 0.5",
    (False, False): "in neither half",
}
NO_VALUE = "no value"


@display(
    title="Advantage over random scores by π",
    by=("protocol", "model"),
    reads={"advantage": "summary/advantage"},
)
def table(view: View) -> Table:
    """Build the table of one protocol and model."""
    files, settings, cell = view.files, view.settings, view.cell
    rows = of_cell(files.rows("advantage"), cell)
    return advantage_table(
        rows,
        where=settings.where(cell),
        methods=present(settings.methods, rows),
        datasets=settings.datasets,
        clamp=settings.clamp,
    )


def advantage_table(
    rows: pd.DataFrame,
    *,
    where: str,
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
    clamp: Clamp,
) -> Table:
    """Build the table of differences to random scores, for the mean over datasets.

    Args:
        rows: `advantage` rows of one protocol and model; none: there are no random scores.
        where: model and protocol, for the title.
        methods: label of each method, in the order of the rows.
        datasets: label of each dataset; their own numbers are in the CSV.
        clamp: where Soft-NS is clamped at 0.
    """
    averages = rows[rows["dataset"] == AVERAGE]
    by_metric = {
        metric: {name: own for name, own in of_metric.groupby("method") if name in methods}
        for metric, of_metric in averages.groupby("metric")
    }
    blocks = tuple(
        Block(title, tuple(_row(methods[name], by_metric[metric][name]) for name in methods))
        for metric, title in METRICS.items()
        if metric in by_metric
    )
    notes = [
        _verdict_note(title, by_metric[metric], methods)
        for metric, title in METRICS.items()
        if metric in by_metric
    ]
    notes += [*_NOTES, notes.clamp(clamp), sample_note(rows, datasets)]
    return Table(
        title=f"Advantage over random scores by π · {where}",
        corner="Method",
        columns=(
            *(text for name in HALVES.values() for text in (name, "p")),
            "Above 0 at π",
            "Better",
        ),
        blocks=blocks,
        notes=tuple(notes) if methods else (NO_CONTROL,),
        values=rows.drop(columns=["protocol", "model"]),
    )


def spans_above_zero(rows: pd.DataFrame) -> str:
    """Return between which π of the grid every interval lies above 0, as `0.3 to 0.9`.

    Args:
        rows: `pi` and `low`, the lower end, of one method, metric and dataset.
    """
    points = rows.dropna(subset="pi").sort_values("pi")
    above = points["low"] > 0
    spans = points["pi"][above].groupby((~above).cumsum()).agg(["min", "max"])
    texts = (
        f"{first:g}" if first == last else f"{first:g} to {last:g}"
        for first, last in spans.itertuples(index=False)
    )
    return ", ".join(texts) or NOTHING


def _row(label: str, rows: pd.DataFrame) -> Row:
    halves = _halves(rows)
    entries = [
        entry
        for _, half in halves.iterrows()
        for entry in (
            mean_entry(half, 3),
            Entry(p_text(half["p_adjusted"])),
        )
    ]
    entries.append(Entry(spans_above_zero(rows)))
    entries.append(Entry(_verdict(halves)))
    return Row(label, tuple(entries))


def _halves(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the halves by part; NaN where the grid has no such part."""
    return rows[rows["pi"].isna()].set_index("part").reindex(list(HALVES))


def _verdict(halves: pd.DataFrame) -> str:
    if halves["value"].isna().any():
        return NO_VALUE
    better = (halves["value"] > 0) & (halves["p_adjusted"] < LEVEL)
    return VERDICTS[bool(better["lower"]), bool(better["upper"])]


def _verdict_note(
    title: str, by_method: Mapping[str, pd.DataFrame], methods: Mapping[str, str]
) -> str:
    """Say which methods are better than random scores where, and where more so."""
    groups: dict[str, list[str]] = {name: [] for name in (*VERDICTS.values(), NO_VALUE)}
    slopes: dict[str, list[str]] = {"larger": [], "smaller": []}
    for method, label in methods.items():
        halves = _halves(by_method[method])
        groups[_verdict(halves)].append(label)
        slope = halves.loc["upper_minus_lower"]
        if slope["p_adjusted"] < LEVEL:
            slopes["larger" if slope["value"] > 0 else "smaller"].append(label)
    told = [f"{where}: {', '.join(own)}" for where, own in groups.items() if own]
    compared = [f"{how} for π > 0.5: {', '.join(own)}" for how, own in slopes.items() if own]
    return (
        f"{title}: better than random scores {'; '.join(told)}. The advantage is "
        f"{'; '.join(compared) or 'not told apart between the halves for any method'}."
    )


_NOTES = (
    "Difference to random scores of the same samples, mean over samples, then over the datasets "
    "with equal weight; above 0 is better than random scores. A half's difference is the area "
    "under the curve of differences over that part of the grid, divided by its width. In "
    "brackets: 95 % bootstrap interval over samples. p: two-sided paired sign-flip permutation "
    "test of a difference of 0, corrected by step-down max-T over all tests of the metric; better "
    f"means above 0 with p < {LEVEL}.",
    "Above 0 at π: between which π of the grid every interval, taken by itself, lies above 0; "
    f"{NOTHING}: nowhere. All curves meet at π = 1. The CSV has every π and every dataset.",
)
