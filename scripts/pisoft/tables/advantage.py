"""The table of each method's advantage over random scores in both halves of the π grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from pisoft.formatting import NOTHING
from pisoft.statistics.metrics import AVERAGE, CURVE_METRICS, LEVEL, NO_CONTROL
from pisoft.tables import grid, notes
from pisoft.views.view import Results, View, display

HALVES = {"lower": "π ≤ 0.5", "upper": "π > 0.5", "upper_minus_lower": "π > 0.5 minus π ≤ 0.5"}
VERDICTS = {  # by whether it is significantly better than random scores below 0.5, and above it
    (True, True): "in both halves",
    (False, True): "for π > 0.5",
    (True, False): "for π ≤ 0.5",
    (False, False): "in neither half",
}
NO_VALUE = "no value"
SLOPES: Mapping[float, str] = {1: "larger for π > 0.5", -1: "smaller for π > 0.5"}


@display(title="Advantage over random scores by π", by=("protocol", "model"), reads=("advantage",))
def table(view: View) -> grid.Table:
    """Build the table of one protocol and model: means over datasets."""
    results = view.results_if_any("advantage")
    averages = results.select(dataset=AVERAGE)
    by_method = averages.rows.groupby(["metric", "method"])
    above = {key: spans_above_zero(rows) for key, rows in by_method}
    verdicts = {key: _verdict(averages, *key) for key in above}
    first = {"part": "at", "position": averages.rows["position"].min()}
    columns = [
        *(
            grid.Column(heading, {"part": part}, show)
            for part, label in HALVES.items()
            for heading, show in ((label, grid.with_interval), ("p-value", grid.p_value))
        ),
        grid.Column("Above 0 at π", first, lambda one: grid.Entry(above[one.metric, one.method])),
        grid.Column(
            "Better than random", first, lambda one: grid.Entry(verdicts[one.metric, one.method])
        ),
    ]
    metrics = CURVE_METRICS if results.methods else {}
    titles, lines = grid.each("metric", metrics), grid.each("method", results.methods)
    blocks = grid.blocks(averages, titles, lines, columns, columns[0])
    below = [NO_CONTROL]
    if metrics:
        better = [_better(averages, name, verdicts) for name in metrics]
        meaning = [notes.text("interval"), notes.about("advantage")]
        below = [*better, *meaning, notes.clamp(view.settings.clamp), notes.samples(results)]
    return grid.table(view, results, columns, blocks, below)


def spans_above_zero(rows: pd.DataFrame) -> str:
    """Return the range of π in which a method's intervals lie above 0: `0.3 to 0.9`."""
    points = rows.dropna(subset="position").sort_values("position")
    above = points["low"] > 0
    spans = points["position"][above].groupby((~above).cumsum()).agg(["min", "max"])
    ends = (dict.fromkeys(f"{pi:g}" for pi in span) for span in spans.itertuples(index=False))
    return ", ".join(map(" to ".join, ends)) or NOTHING


def _sign(averages: Results, metric: str, method: str, part: str) -> float:
    """Return 1 if a part's mean is significantly above 0, -1 if below, else 0; NaN: no value."""
    number = averages.number({"metric": metric, "method": method, "part": part})
    return float(np.sign(number.value) * (number.p_adjusted < LEVEL))


def _verdict(averages: Results, metric: str, method: str) -> str:
    lower, upper = (_sign(averages, metric, method, part) for part in ("lower", "upper"))
    return NO_VALUE if np.isnan(lower + upper) else VERDICTS[lower > 0, upper > 0]


def _better(averages: Results, metric: str, verdicts: Mapping[tuple[str, str], str]) -> str:
    """Count methods by the halves in which they beat random scores, and by the larger lead."""
    halves = [verdicts[metric, name] for name in averages.methods]
    signs = [_sign(averages, metric, name, "upper_minus_lower") for name in averages.methods]
    better, label = _counts(halves, VERDICTS.values()), CURVE_METRICS[metric]
    if not better:
        return f"{label}: no method has a value for both halves."
    sentence = f"{label}: methods better than random scores {better}."
    if NO_VALUE in halves:
        sentence += f" Methods without a value: {halves.count(NO_VALUE)}."
    differs = _counts([SLOPES.get(sign, "") for sign in signs], SLOPES.values())
    differs = differs or "not significantly different between the halves for any method"
    return f"{sentence} The advantage is {differs}."


def _counts(outcomes: Iterable[str], order: Iterable[str]) -> str:
    """Count methods by outcome: `in both halves: 2; for π > 0.5: 1`."""
    counts = Counter(outcomes)
    return "; ".join(f"{outcome}: {counts[outcome]}" for outcome in order if counts[outcome])
