"""The table of each method's advantage over random scores in both halves of the π grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from pisoft.formatting import NOTHING
from pisoft.statistics.metrics import AVERAGE, CURVE_METRICS, LEVEL, NO_CONTROL
from pisoft.statistics.results import select
from pisoft.tables import notes
from pisoft.tables.grid import Column, blocks, each, grid_table, p_value, with_interval
from pisoft.tables.layout import Entry, Table
from pisoft.views.registry import display
from pisoft.views.view import View

HALVES = {
    "lower": "π ≤ 0.5",
    "upper": "π > 0.5",
    "upper_minus_lower": "Larger for π > 0.5 by",
}
VERDICTS = {  # by whether it is significantly better than random scores below 0.5, and above it
    (True, True): "in both halves",
    (False, True): "for π > 0.5",
    (True, False): "for π ≤ 0.5",
    (False, False): "in neither half",
}
NO_VALUE = "no value"
SLOPES = {1: "larger for π > 0.5", -1: "smaller for π > 0.5"}


@display(title="Advantage over random scores by π", by=("protocol", "model"), reads=("advantage",))
def table(view: View) -> Table:
    """Build the table of one protocol and model, of the mean over datasets."""
    results = view.results_if_any("advantage")
    averages = results.select(dataset=AVERAGE)
    by_method = dict(iter(averages.rows.groupby(["metric", "method"])))
    above = {key: spans_above_zero(rows) for key, rows in by_method.items()}
    signs = {key: half_signs(rows) for key, rows in by_method.items()}
    verdicts = {key: _verdict(halves) for key, halves in signs.items()}
    first = {"part": "at", "position": averages.rows["position"].min()}
    grid = [
        *(
            Column(heading, {"part": part}, show)
            for part, label in HALVES.items()
            for heading, show in ((label, with_interval), ("p-value", p_value))
        ),
        Column("Above 0 at π", first, lambda one: Entry(above[one.metric, one.method])),
        Column("Better than random", first, lambda one: Entry(verdicts[one.metric, one.method])),
    ]
    shown = CURVE_METRICS if results.methods else {}
    made = blocks(averages, each("metric", shown), each("method", results.methods), grid, grid[0])
    below = [NO_CONTROL]
    if shown:
        better = [_better(name, results.methods, verdicts, signs) for name in shown]
        meaning = [notes.text("interval"), notes.of_table("advantage")]
        below = [*better, *meaning, notes.clamp(view.settings.clamp), notes.samples(results)]
    return grid_table(view, results, grid, made, below)


def spans_above_zero(rows: pd.DataFrame) -> str:
    """Return between which π of the grid every interval of a method lies above 0: `0.3 to 0.9`."""
    points = rows.dropna(subset="position").sort_values("position")
    above = points["low"] > 0
    spans = points["position"][above].groupby((~above).cumsum()).agg(["min", "max"])
    ends = (dict.fromkeys(f"{pi:g}" for pi in span) for span in spans.itertuples(index=False))
    return ", ".join(map(" to ".join, ends)) or NOTHING


def half_signs(rows: pd.DataFrame) -> pd.Series:
    """Return by part whether each of :data:`HALVES` differs significantly from 0.

    1: it is above 0, -1: below, 0: not significantly different, NaN: no value.
    """
    halves = select(rows, part=HALVES).set_index("part").reindex(list(HALVES))
    return np.sign(halves["value"]) * (halves["p_adjusted"] < LEVEL)


def _verdict(signs: pd.Series) -> str:
    return NO_VALUE if signs.isna().any() else VERDICTS[signs["lower"] > 0, signs["upper"] > 0]


def _better(
    metric: str,
    methods: Mapping[str, str],
    verdicts: Mapping[tuple[str, str], str],
    signs: Mapping[tuple[str, str], pd.Series],
) -> str:
    """Say which methods are better than random scores where, and where more so."""
    halves = {name: verdicts[metric, name] for name in methods}
    slopes = {name: SLOPES.get(signs[metric, name]["upper_minus_lower"], "") for name in methods}
    better = _grouped(methods, halves, [*VERDICTS.values(), NO_VALUE])
    differs = _grouped(methods, slopes, SLOPES.values())
    differs = differs or "not significantly different between the halves for any method"
    return (
        f"{CURVE_METRICS[metric]}: better than random scores {better}. The advantage is {differs}."
    )


def _grouped(labels: Mapping[str, str], outcomes: Mapping[str, str], order: Iterable[str]) -> str:
    """List methods by their outcome, as `in both halves: A, B; for π > 0.5: C`."""
    groups = {
        outcome: [label for name, label in labels.items() if outcomes[name] == outcome]
        for outcome in order
    }
    return "; ".join(f"{outcome}: {', '.join(group)}" for outcome, group in groups.items() if group)
