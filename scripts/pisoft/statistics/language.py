"""What a model makes of perturbed inputs, by operator and retaining probability.

Of one sample, the mean over its explained steps; rows are means over samples.
"""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.slices.summaries import ResamplingSlice
from pisoft.contracts import OK
from pisoft.statistics.means import mean_rows
from pisoft.statistics.reading import Files, Summary, load_rows

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
    cells: dict[tuple[str, str], dict[str, pd.DataFrame]] = {}
    for path in files["inputs"]:
        protocol, model, dataset = path.with_suffix("").parts[-3:]
        cells.setdefault((protocol, model), {})[dataset] = by_sample(load_rows(path, "inputs"))
    schema = SCHEMAS["language"]
    tables = [schema.empty_table()]
    for (protocol, model), datasets in cells.items():
        rows = mean_rows(datasets, settings.seed, settings.resamples)
        rows = rows.assign(protocol=protocol, model=model)[schema.names]
        tables.append(pa.Table.from_pandas(rows, schema=schema, preserve_index=False))
    return {"language": pa.concat_tables(tables).replace_schema_metadata(None)}


def by_sample(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per sample and a column per measure, operator and π; NaN where it failed.

    Args:
        rows: `inputs` rows of one dataset.
    """
    names = [*MEASURES, *CLEAN]
    numbers = rows[names].astype(float).where(rows["status"] == OK)
    by_step = pd.concat([rows[["sample_id", *COLUMNS]], numbers], axis="columns")
    table = by_step.groupby(["sample_id", *COLUMNS], sort=False).mean().unstack(COLUMNS)
    table.columns = table.columns.set_names("measure", level=0)
    return table
