"""What a model makes of perturbed inputs, by operator and retaining probability.

Of one sample, the mean over its explained steps; rows are means over samples.
"""

from __future__ import annotations

import pandas as pd

from pisoft.config.slices import ResamplingSlice
from pisoft.contracts import OK
from pisoft.statistics.estimates import Samples, estimate_rows
from pisoft.statistics.reading import Files, Summary, load_rows, summary_table

MEASURES = ("entropy", "label_probability", "attention", "hidden_norm")
CLEAN = ("clean_entropy", "clean_label_probability", "clean_attention")
COLUMNS = ["operator", "pi"]
OPERATORS = {
    "zero": "Zeroed",
    "mean": "Mean embedding",
    "unknown": "Unknown token",
    "hide": "Keys hidden",
}
Settings = ResamplingSlice


def summaries(files: Files, settings: ResamplingSlice) -> dict[str, Summary]:
    """Return one file, from all `inputs` files `…/{protocol}/{model}/{dataset}.parquet`."""
    cells: dict[tuple[str, str], dict[str, Samples]] = {}
    for path in files["inputs"]:
        protocol, model, dataset = path.with_suffix("").parts[-3:]
        samples = Samples.of_means(by_sample(load_rows(path, "inputs")))
        cells.setdefault((protocol, model), {})[dataset] = samples
    tables = [
        estimate_rows(datasets, settings.seed, settings.resamples).assign(
            protocol=protocol, model=model
        )
        for (protocol, model), datasets in cells.items()
    ]
    renamed = (table.rename(columns={"metric": "measure"}) for table in tables)
    return {"off_distribution": summary_table("off_distribution", renamed)}


def by_sample(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per sample and a column per measure (`metric`), operator and π; NaN: it failed.

    Args:
        rows: `inputs` rows of one dataset.
    """
    names = [*MEASURES, *CLEAN]
    numbers = rows[names].astype(float).where(rows["status"] == OK)
    by_step = pd.concat([rows[["sample_id", *COLUMNS]], numbers], axis="columns")
    table = by_step.groupby(["sample_id", *COLUMNS], sort=False).mean().unstack(COLUMNS)
    table.columns = table.columns.set_names("metric", level=0)
    return table
