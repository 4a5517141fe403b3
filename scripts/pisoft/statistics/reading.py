"""Reading summary files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pisoft.errors import BenchmarkError
from pisoft.store.parquet import read_table
from pisoft.store.schemas import SCHEMAS

REPAIR = "delete the file and run the workflow again"


def load_rows(path: Path | Sequence[Path], kind: str, **selection: Collection[str]) -> pd.DataFrame:
    """Read the rows of summary files of a kind, filtered by allowed values of columns.

    Raises:
        BenchmarkError: an unreadable file.
    """
    filters = [(column, "in", list(values)) for column, values in selection.items()]
    where = pq.filters_to_expression(filters) if filters else None
    paths = [path] if isinstance(path, Path) else path
    tables = [read_table(path, kind, where=where) for path in paths]
    table = pa.concat_tables(tables) if tables else SCHEMAS[kind].empty_table()
    return table.to_pandas()


Summary = pa.Table | Iterable[pd.DataFrame]
"""What becomes a summary file: its table, or the frames of its rows."""


class Files(dict[str, list[Path]]):
    """The input files of a table, figure or page, by kind."""

    def __missing__(self, kind: str) -> NoReturn:
        """Raise an error that names the missing kind."""
        raise BenchmarkError(f"--files: none of kind '{kind}' is given")

    def rows(self, kind: str, **selection: str) -> pd.DataFrame:
        """Return the rows of all files of a kind, filtered by equal values of columns.

        Raises:
            BenchmarkError: an unreadable file, or no such row.
        """
        rows = self.rows_if_any(kind, **{column: [value] for column, value in selection.items()})
        if selection and rows.empty:
            values = ", ".join(f"{column} '{value}'" for column, value in selection.items())
            raise BenchmarkError(f"{self[kind][0]}: holds no row for {values}")
        return rows

    def rows_if_any(self, kind: str, **selection: Collection[str]) -> pd.DataFrame:
        """Return the rows filtered by allowed values of columns, possibly none.

        Raises:
            BenchmarkError: an unreadable file.
        """
        return load_rows(self[kind], kind, **selection)

    def clusters(self) -> dict[str, str]:
        """Return clusters by `sample_id`, from the `datasets` whose records have one."""
        columns = ["sample_id", "cluster"]
        tables = [read_table(path, "datasets", columns) for path in self.get("clusters", [])]
        rows = [row for table in tables for row in table.to_pylist()]
        return {row["sample_id"]: row["cluster"] for row in rows if row["cluster"] is not None}
