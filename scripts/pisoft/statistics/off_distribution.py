"""Whether ablated inputs are off-distribution to the model, by operator and retaining probability.

The measure of a sample is the mean over its evaluated steps; rows are means over samples. Part
`clean` is the clean input. Its entropy and label words do not depend on operator or π, but its
attention does: it is the attention to tokens that the operator would ablate.
"""

from __future__ import annotations

import pandas as pd

from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.statistics.estimates import estimate_cells
from pisoft.statistics.reading import Files, Summary, load_rows
from pisoft.store.parquet import OK

MEASURES = ("entropy", "label_probability", "attention", "hidden_norm")
CLEAN = "clean"
CLEAN_INPUT = ["clean_entropy", "clean_label_probability"]
CLEAN_MEASURES = [*CLEAN_INPUT, "clean_attention"]
KEYS = ["metric", "part", "operator", "position"]
OPERATORS = {
    "zero": "Zeroed",
    "mean": "Mean embedding",
    "unknown": "Unknown token",
    "hide": "Keys hidden",
}


def summaries(files: Files, settings: ResamplingJob) -> dict[str, Summary]:
    """Return one file, from all `inputs` files `…/{protocol}/{model}/{dataset}.parquet`."""
    cells = {
        path.with_suffix("").parts[-3:]: by_sample(load_rows(path, "inputs"))
        for path in files["inputs"]
    }
    estimates = estimate_cells(cells, settings, files.clusters())
    return {"off_distribution": map(_without_interval, estimates)}


def _without_interval(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with intervals of zero width where attention is 0 by construction."""
    exact = (rows["metric"] == "attention") & (rows["operator"] == "hide") & (rows["value"] == 0)
    return rows.assign(low=rows["low"].mask(exact, 0.0), high=rows["high"].mask(exact, 0.0))


def by_sample(rows: pd.DataFrame) -> pd.DataFrame:
    """Return samples by :data:`KEYS` from `inputs` rows of one dataset; NaN: failed."""
    by_step = rows.set_index(["sample_id", "step", "operator", "pi"])
    numbers = by_step[[*MEASURES, *CLEAN_MEASURES]].astype(float).where(by_step["status"] == OK)
    cells = ["sample_id", "operator", "pi"]
    by_cell = numbers.drop(columns=CLEAN_INPUT).groupby(cells, sort=False).mean().unstack(cells[1:])
    clean = numbers[CLEAN_INPUT].groupby(["sample_id", "step"]).first().groupby("sample_id").mean()
    columns = {
        (name.removeprefix("clean_"), CLEAN if name in CLEAN_MEASURES else "", *cell): values
        for (name, *cell), values in by_cell.items()
    }
    columns |= {(name.removeprefix("clean_"), CLEAN, "", ""): clean[name] for name in CLEAN_INPUT}
    return pd.concat(columns, axis="columns", names=KEYS)
