"""The table of how each metric ranks the controls."""

from __future__ import annotations

import numpy as np

from pisoft.displays import display
from pisoft.statistics.metrics import METRICS
from pisoft.tables import notes
from pisoft.tables.grid import Column, blocks, columns, each, grid_table, plain, with_interval
from pisoft.tables.layout import Entry, Table
from pisoft.units import NOTHING
from pisoft.views import Number, View

SHARES = {
    "oracle_over_noisy": "Oracle > noisy",
    "noisy_over_random": "Noisy > random",
    "random_over_anti-oracle": "Random > anti-oracle",
    "oracle_over_random": "Oracle > random",
    "ladder": "Ladder τ",
}
NEEDED = "samples_needed"


@display(
    title="Metric validation",
    by=("model",),
    reads={"metric_validation": "summary/metric_validation"},
    cells="control",
)
def table(view: View) -> Table:
    """Build the table of one model; what is at a single π is in the CSV and the figure alone."""
    results = view.results("metric_validation")
    whole = results.select(position=np.nan)
    keys = whole.rows[["protocol", "metric"]].drop_duplicates().itertuples(index=False)
    lines = {
        METRICS[metric].label + (f" · {protocol}" if protocol else ""): {
            "metric": metric,
            "protocol": protocol,
        }
        for protocol, metric in sorted(keys, key=_place)
    }
    grid = [
        *columns("part", SHARES, with_interval(2)),
        Column("Means in order", {"part": "means_in_order"}, plain(2)),
        Column("Samples needed", {"part": NEEDED}, _needed),
    ]
    made = blocks(whole, each("dataset", whole.datasets), lines, grid, sparse=True)
    verdicts = []
    for dataset, label in whole.datasets.items():
        needed = {
            line: whole.number({**keys, "dataset": dataset, "part": NEEDED})
            for line, keys in lines.items()
        }
        verdicts.append(notes.order_of_controls(label, needed))
    below = [
        *verdicts,
        *notes.METRIC_VALIDATION,
        notes.samples(whole.rows, whole.datasets),
    ]
    title = "Metric validation"
    return grid_table(view, title, results, grid, made, below, corner="Metric")


def _place(key: tuple[str, str]) -> tuple[str, int]:
    """Return where a metric stands: by protocol, insertion and deletion last."""
    protocol, metric = key
    return protocol or "~", list(METRICS).index(metric)


def _needed(number: Number) -> Entry:
    never = f"more than {number.n:.0f}" if number.n else NOTHING
    return Entry(never if np.isnan(number.value) else f"{number.value:.0f}")
