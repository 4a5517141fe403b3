"""Results: one row per number, addressed by its keys, and one file per question.

All files have the columns :data:`pisoft.store.schemas.RESULT`, so that tables, figures and pages
address numbers identically. A key that does not apply is empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pandas as pd
import pyarrow as pa

from pisoft.store.schemas import FILES, RESULT, SCHEMAS

KEYS = ["protocol", "operator", "model", "variant", "dataset", "metric", "method", "other", "part"]
KEYS += ["position"]


def summary_table(kind: str, frames: Iterable[pd.DataFrame]) -> pa.Table:
    """Return the rows of all frames as a file of a kind, a key of :data:`SCHEMAS`.

    Frames of results may lack columns; missing keys do not apply.

    Raises:
        ValueError: an unknown column, or two numbers with the same keys.
    """
    schema = SCHEMAS[kind]
    if FILES[kind].columns is RESULT:
        frames = [_completed(kind, frames)]
    tables = [
        pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)
        for frame in frames
    ]
    return pa.concat_tables([schema.empty_table(), *tables]).replace_schema_metadata(None)


def _completed(question: str, frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    schema = SCHEMAS[question]
    rows = pd.concat([pd.DataFrame(columns=schema.names), *frames], ignore_index=True)
    if odd := [name for name in rows if name not in schema.names]:
        raise ValueError(f"{question}: results have no column {odd}")
    rows["question"] = question
    for field in schema:
        column = rows[field.name].astype(object)
        if pa.types.is_string(field.type):
            rows[field.name] = column.where(column.notna(), "")
        else:  # as a key of columns cannot be NaN, a position that does not apply may be empty
            numbers = column.where(column != "").astype(float)
            rows[field.name] = numbers if field.nullable else numbers.fillna(0)
    if len(twice := rows[rows.duplicated(KEYS)]):
        keys = twice[KEYS].iloc[0].to_dict()
        raise ValueError(f"{question}: two numbers of the same keys: {keys}")
    return rows


def in_both_orders(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Return comparisons, followed by the same with both methods swapped."""
    mirrored = comparisons.rename(columns={"method": "other", "other": "method"})
    return pd.concat([comparisons, mirrored.assign(value=-comparisons["value"])])


def select(rows: pd.DataFrame, **keys: Any) -> pd.DataFrame:
    """Return the rows whose keys have a value, or one of several values."""
    for key, values in keys.items():
        several = isinstance(values, Collection) and not isinstance(values, str)
        rows = rows[rows[key].isin(list(values) if several else [values])]
    return rows
