"""Time and memory of attribution (paper, tab:computational_complexity)."""

from __future__ import annotations

import math

import numpy as np

from pisoft.config.studies import SELECTED_METHODS
from pisoft.formatting import NOTHING
from pisoft.statistics.results import select
from pisoft.statistics.timings import SECONDS
from pisoft.tables import grid, notes
from pisoft.views.view import Number, View, display


@display(title="Time and memory of attribution", reads=("timings",), cells="timed")
def table(view: View) -> grid.Table:
    """Build the table of milliseconds per sample and peak memory."""
    methods, baselines = view.settings.methods, view.settings.baselines
    results = view.results("timings", method=methods)
    seconds = select(results.rows, metric=SECONDS)
    compared = seconds[~seconds["method"].isin(baselines)]  # a baseline's speed is no achievement
    fastest = compared.groupby(["model", "dataset"])["value"].min().to_dict()

    def milliseconds(number: Number) -> grid.Entry:
        best = number.value == fastest.get((number.model, number.dataset))
        strong = best and number.method not in baselines
        return grid.Entry(_milliseconds(number.value), strong)

    def megabytes(number: Number) -> grid.Entry:
        keys = {key: getattr(number, key) for key in ("model", "method", "dataset")}
        on_device = results.number({**keys, "metric": "peak_device_memory_mb"}).value
        return grid.Entry(grid.number_text(number.value if np.isnan(on_device) else on_device, 0))

    models = {n: label for n, label in view.settings.models.items() if n in set(seconds["model"])}
    columns: list[grid.Column] = []
    for model in models:
        time, memory = ({"model": model, "metric": name} for name in (SECONDS, "peak_memory_mb"))
        columns.append(grid.Column("Time, ms ↓", time, milliseconds, ascending=True))
        columns.append(grid.Column("Memory, MB", memory, megabytes))
    titles, lines = grid.each("dataset", results.datasets), grid.each("method", results.methods)
    blocks = grid.blocks(results, titles, lines, columns, columns[0], sparse=True)
    selected = [methods[name] for name in SELECTED_METHODS.values() if name in methods]
    imported = [methods[name] for name in view.settings.imported]
    below = [
        *notes.timings(results, baselines),
        notes.float32_agreement(results),
        notes.without_row(selected, "a selected depth is not timed separately"),
        notes.without_row(imported, "these scores were made elsewhere"),
        notes.samples(results.with_rows(seconds)),
    ]
    spanners = [(label, 2) for label in models.values()]
    return grid.table(view, results, columns, blocks, below, spanners=spanners)


def _milliseconds(seconds: float) -> str:
    """Return a time with two significant digits; the third varies between runs."""
    if np.isnan(seconds):
        return NOTHING
    rounded = float(f"{1000 * seconds:.2g}")
    magnitude = math.floor(math.log10(rounded)) if rounded > 0 else 0
    return f"{rounded:.{max(0, 1 - magnitude)}f}"
