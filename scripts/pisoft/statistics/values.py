"""The values of a dataset's samples as one matrix: rows are samples, columns are what was measured.

Statistics of all models, methods and metrics are then taken of the same rows, so that resampling
them keeps the methods paired.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pisoft.columns import SCHEMAS
from pisoft.contracts import OK, read_table

KEY = ["protocol", "model", "metric", "method"]  # protocol None: of a kind without any


@dataclass(frozen=True)
class SampleValues:
    """All values of one dataset.

    Attributes:
        values: samples by columns, NaN where a sample has no value, (n, C).
        columns: :data:`KEY` of each column, and `n_failed`, its failed samples, (C rows).
    """

    values: np.ndarray
    columns: pd.DataFrame


def sample_values(paths: Iterable[Path], dataset: str, metrics: Iterable[str]) -> SampleValues:
    """Read the values of one dataset.

    Args:
        paths: summary files, named after their kind: `soft_samples.parquet` and, if there are any,
            those of other kinds of samples, such as `ranking_samples.parquet`.
        dataset: its name.
        metrics: the sample metrics wanted.

    Raises:
        BenchmarkError: an unreadable file.
    """
    where = (pc.field("dataset") == dataset) & pc.field("metric").isin(list(metrics))
    tables = [_read(path, where) for path in paths]
    rows = pa.concat_tables(tables).to_pandas(strings_to_categorical=True)
    column = rows.groupby(KEY, sort=False, observed=True, dropna=False).ngroup().to_numpy()
    keys = rows.loc[~rows.duplicated(KEY), KEY].astype(object).reset_index(drop=True)
    keys = keys.where(keys.notna(), None)
    sample, names = pd.factorize(rows["sample_id"].astype(object))
    values = np.full((len(names), len(keys)), np.nan)
    values[sample, column] = rows["value"]
    failed = np.bincount(column[rows["status"] != OK], minlength=len(keys))
    return SampleValues(values, keys.assign(n_failed=failed))


def _read(path: Path, where: pc.Expression) -> pa.Table:
    """Read the rows of samples; those that say why a dataset has none are no samples."""
    kind = path.stem
    columns = [name for name in KEY if name in SCHEMAS[kind].names]
    table = read_table(path, kind, [*columns, "sample_id", "value", "status", "dataset"], where)
    table = table.filter(pc.is_valid(table.column("sample_id")))
    if "protocol" not in columns:
        table = table.append_column("protocol", pa.nulls(table.num_rows, pa.string()))
    return table.select([*KEY, "sample_id", "value", "status"]).cast(_SCHEMA)


_SCHEMA = pa.schema(
    [(name, pa.string()) for name in [*KEY, "sample_id"]]
    + [("value", pa.float64()), ("status", pa.string())]
)
