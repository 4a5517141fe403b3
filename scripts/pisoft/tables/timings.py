"""How long attribution takes and how much memory it needs (paper, tab:computational_complexity)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pandas as pd

from pisoft.config.studies import SELECTED_METHODS
from pisoft.displays import display
from pisoft.tables.layout import Block, Entry, Row, Table
from pisoft.units import NOTHING
from pisoft.views import View

_MEASURES = ("seconds_per_sample", "peak_memory_mb", "peak_device_memory_mb")


@display(
    title="Time and memory of attribution",
    reads={"timings": "summary/timings"},
    cells="timed",
)
def table(view: View) -> Table:
    """Build the table of the run."""
    files, settings, cell = view.files, view.settings, view.cell
    return timings_table(
        files.rows("timings", **cell),
        models=settings.models,
        methods=settings.methods,
        datasets=settings.datasets,
        controls=settings.baselines,
        imported=settings.imported,
    )


def timings_table(
    rows: pd.DataFrame,
    *,
    models: Mapping[str, str],
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
    controls: Collection[str],
    imported: Collection[str],
) -> Table:
    """Build the table of milliseconds per sample and peak memory.

    Args:
        rows: rows of kind `timings`.
        models: label of each model, in the order of the columns.
        methods: label of each method, in the order of the rows; selections among depths have none.
        datasets: label of each dataset, in the order of the blocks.
        controls: methods that are shown but cannot be the fastest.
        imported: methods that have no row either: their scores were made elsewhere.
    """
    selected = [label for name, label in methods.items() if name in SELECTED_METHODS.values()]
    given = [label for name, label in methods.items() if name in imported]
    timed = {
        name: label
        for name, label in methods.items()
        if name not in imported and label not in selected
    }
    cells = pd.MultiIndex.from_product([models, timed, datasets])
    cells.names = ["model", "method", "dataset"]
    wanted = rows.set_index(cells.names).reindex(cells)
    numbers = wanted[list(_MEASURES)].astype(np.float64)
    blocks = tuple(
        _block(label, numbers.xs(dataset, level="dataset"), models, timed, controls)
        for dataset, label in datasets.items()
    )
    return Table(
        title="Attribution: milliseconds per sample and peak memory",
        corner="Method",
        columns=("ms ↓", "MB") * len(models),
        blocks=blocks,
        notes=(
            *_explanations(rows, [timed[name] for name in timed if name in controls]),
            *_without_row(selected, "a selection has no time of its own"),
            *_without_row(given, "these scores were made elsewhere"),
            *_coverage_notes(wanted, models, timed, datasets),
        ),
        values=wanted.dropna(subset="n").reset_index()[rows.columns].astype(rows.dtypes),
        spanners=tuple((label, 2) for label in models.values()),
    )


def _block(
    title: str,
    numbers: pd.DataFrame,
    models: Iterable[str],
    methods: Mapping[str, str],
    controls: Collection[str],
) -> Block:
    """Return one dataset's lines from measures by model and method."""
    seconds = numbers["seconds_per_sample"].unstack("model")[list(models)]
    memory = numbers["peak_device_memory_mb"].fillna(numbers["peak_memory_mb"])
    megabytes = memory.unstack("model")[list(models)]
    fastest = seconds.drop(index=list(controls), errors="ignore").min()
    return Block(
        title,
        tuple(
            Row(
                label,
                tuple(
                    entry
                    for model in models
                    for entry in (
                        Entry(
                            _milliseconds(seconds.loc[method, model]),
                            strong=method not in controls
                            and seconds.loc[method, model] == fastest[model],
                        ),
                        Entry(_whole(megabytes.loc[method, model])),
                    )
                ),
            )
            for method, label in methods.items()
        ),
    )


def _milliseconds(seconds: float) -> str:
    """Return a time with two significant digits: the next run would give another third one."""
    if np.isnan(seconds):
        return NOTHING
    rounded = float(f"{1000 * seconds:.2g}")
    magnitude = math.floor(math.log10(rounded)) if rounded > 0 else 0
    return f"{rounded:.{max(0, 1 - magnitude)}f}"


def _whole(value: float) -> str:
    return NOTHING if np.isnan(value) else f"{value:.0f}"


def _explanations(rows: pd.DataFrame, controls: list[str]) -> list[str]:
    """Say what the numbers are, and which machine they are of."""
    excepted = f", {', '.join(controls)} excepted" if controls else ""
    measured = rows["peak_device_memory_mb"].notna()
    what = {
        "memory allocated on the device during attribution, the model included": measured.any(),
        "resident memory of the whole job, loading the model included": not measured.all(),
    }
    return [
        "ms: mean milliseconds per sample, all of its explained steps together. Timed is the "
        "method alone, the device synchronised before and after, without a first warm-up run. "
        "Lower is better; bold marks the fastest method of a column"
        f"{excepted}. Samples of a batch share its time in proportion to the tokens read, so their "
        "spread would show how long they are, not how far the times are off; none is given.",
        f"MB: peak {' or '.join(text for text, applies in what.items() if applies)}.",
        f"Measured on: {', '.join(rows['device'].unique())}. Times are of this machine and differ "
        "from run to run.",
    ]


def _without_row(labels: list[str], why: str) -> list[str]:
    """Say which methods have no row, if there are such."""
    return [f"Without a row, as {why}: {', '.join(labels)}."] if labels else []


def _coverage_notes(
    wanted: pd.DataFrame,
    models: Mapping[str, str],
    methods: Mapping[str, str],
    datasets: Mapping[str, str],
) -> list[str]:
    """Say how many samples there are, and how many of them failed where."""
    totals = (wanted["n"] + wanted["n_failed"]).groupby("dataset").max()
    present = [name for name in datasets if totals[name] > 0]
    listed = ", ".join(f"{datasets[name]} {totals[name]:.0f}" for name in present)
    failed = [
        f"{datasets[dataset]} ({models[model]}, {methods[method]}): {count:.0f}"
        for (model, method, dataset), count in wanted["n_failed"].items()
        if count > 0
    ]
    told = f"Failed samples, left out of the means: {'; '.join(failed)}." if failed else ""
    return [f"Samples per dataset: {listed}.", told or "No sample failed."]
