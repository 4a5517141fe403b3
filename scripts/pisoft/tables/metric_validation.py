"""The table of metric validation: how each metric ranks the controls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pisoft.formatting import NOTHING
from pisoft.statistics.metrics import METRICS
from pisoft.tables import grid, notes
from pisoft.views.labels import CONTROL_PAIRS
from pisoft.views.view import MISSING, Keys, Number, Results, View, display

ORDER = dict(list(CONTROL_PAIRS.items())[:3])  # neighbours of the order that is to be recovered
SHARES = {**CONTROL_PAIRS, "ladder": "Noise order (τ)"}
NEEDED = "samples_needed"


@display(title="Metric validation", by=("model",), reads=("metric_validation",), cells="controls")
def table(view: View) -> grid.Table:
    """Build the table of one model; numbers at single π are only in the CSV and the figure."""
    results = view.results("metric_validation")
    whole = results.select(position=np.nan)
    keys = whole.rows[["protocol", "metric"]].drop_duplicates().itertuples(index=False)
    lines = {
        METRICS[key.metric].label + (f" · {key.protocol}" if key.protocol else ""): key._asdict()
        for key in sorted(keys, key=_place)
    }
    columns = [
        *grid.columns("part", SHARES, grid.with_interval),
        grid.Column("Means in order", {"part": "means_in_order"}, grid.plain(2)),
        grid.Column("Samples needed", {"part": NEEDED}, _needed),
    ]
    blocks = grid.blocks(whole, grid.each("dataset", whole.datasets), lines, columns, sparse=True)
    verdicts = _verdicts(whole, lines)
    shares = "Shares of samples and the noise order by the π-Soft metrics"
    by_sample = notes.sparse(view.settings, "single_samples", numbers=shares)
    below = [*verdicts, notes.about("metric_validation"), by_sample, notes.samples(whole)]
    return grid.table(view, results, columns, blocks, below, corner="Metric")


def _verdicts(whole: Results, lines: grid.Labelled) -> Iterator[str]:
    """Name the metrics that recover the order of the controls, and those that fail."""
    for dataset, dataset_label in whole.datasets.items():
        recovered, confused = [], []
        for line, keys in lines.items():
            line_keys = {**keys, "dataset": dataset}
            needed = whole.number({**line_keys, "part": NEEDED})
            if np.isfinite(needed.value):
                recovered.append(line)
            elif needed is not MISSING:
                confused.append(line + _confused(whole, line_keys))
        outcomes = {"recovered": recovered, "not recovered with these samples": confused}
        for words, labels in outcomes.items():
            if labels:
                yield f"{dataset_label}: order of the means {words} by {'; '.join(labels)}."


def _confused(whole: Results, keys: Keys) -> str:
    """Name the adjacent controls that the fewest samples order correctly, with their share."""
    numbers = {label: whole.number({**keys, "part": part}) for part, label in ORDER.items()}
    shares = {label: number for label, number in numbers.items() if not np.isnan(number.value)}
    if not shares:
        return ""
    label = min(shares, key=lambda label: shares[label].value)
    share = shares[label]
    interval = grid.interval_text(share.low, share.high, 2)
    return f" ({label} in {grid.number_text(share.value, 2)} {interval} of the samples)"


def _place(key: tuple[str, str]) -> tuple[str, int]:
    """Return the sort key of a metric: by protocol, insertion and deletion last."""
    protocol, metric = key
    return protocol or "~", list(METRICS).index(metric)


def _needed(number: Number) -> grid.Entry:
    never = f"more than {number.n:.0f}" if number.n else NOTHING
    return grid.Entry(never if np.isnan(number.value) else f"{number.value:.0f}")
