"""Reading summary files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from pathlib import Path

import pandas as pd
import pyarrow.compute as pc

from pisoft.contracts import read_table
from pisoft.errors import BenchmarkError

REPAIR = "delete the file and run the workflow again"


def load_rows(path: Path, kind: str, **selection: str) -> pd.DataFrame:
    """Read the rows of a summary file whose columns equal the given values.

    Args:
        path: the file.
        kind: its kind, a key of :data:`pisoft.contracts.SCHEMAS`.
        selection: column names with the value to keep, for example `protocol="dynamic"`.

    Raises:
        BenchmarkError: an unreadable file, or no such row.
    """
    conditions = [pc.field(column) == value for column, value in selection.items()]
    table = read_table(path, kind, where=reduce(and_, conditions) if conditions else None)
    if selection and not table.num_rows:
        wanted = ", ".join(f"{column} '{value}'" for column, value in selection.items())
        raise BenchmarkError(f"{path}: holds no row for {wanted}")
    return table.to_pandas()


def present(methods: Mapping[str, str], rows: pd.DataFrame) -> dict[str, str]:
    """Return the methods that have a row: a model may be restricted to some of them."""
    found = set(rows["method"])
    return {name: label for name, label in methods.items() if name in found}
