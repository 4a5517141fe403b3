"""Missing, mistyped and null columns of every kind of Parquet file are refused in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pisoft.errors import BenchmarkError
from pisoft.store.parquet import OK, read_rows, read_table, write_rows
from pisoft.store.schemas import FILES, SCHEMAS

VALUES = {pa.string(): "a", pa.int32(): 1, pa.bool_(): True}
NO_VALUE = {"no": {"such": "type"}}
KINDS = {FILES[kind].columns: kind for kind in SCHEMAS}.values()  # one per set of columns


def example(kind: pa.DataType) -> Any:
    """Return an example value of a type."""
    if pa.types.is_map(kind):
        return {"a": "b"}
    if pa.types.is_list(kind):
        return [example(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: example(field.type) for field in kind}
    return VALUES.get(kind, 0.5)


def refused(message: str, action: Callable[..., Any], path: Path, *arguments: Any) -> None:
    with pytest.raises(BenchmarkError, match=f"^{re.escape(f'{path}: {message}')}"):
        action(path, *arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_column_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    schema = SCHEMAS[kind]
    row = {field.name: example(field.type) for field in schema}
    row |= {"status": OK} if "status" in row else {}
    good, bad, new = (tmp_path / f"{name}.parquet" for name in ("good", "bad", "new"))
    write_rows(good, kind, [row], {})
    assert read_rows(good, kind) == [row]
    table = pq.read_table(good)
    columns = f"columns missing or unknown for '{kind}': "
    for place, field in enumerate(schema):
        name, others = field.name, [key for key in row if key != field.name]
        column = f"column '{name}'"

        pq.write_table(table.drop_columns([name]), bad)
        refused(f"{column} is missing for '{kind}'", read_table, bad, kind)
        assert read_table(bad, kind, others).column_names == others, "only read columns are checked"
        without = {key: row[key] for key in others}
        refused(f"{columns}['{name}']", write_rows, new, kind, [without], {})

        other = pa.array([b"a"])
        pq.write_table(table.set_column(place, name, other), bad)
        refused(f"{column} is binary, expected {field.type}; delete", read_table, bad, kind)
        wrong = [row | {name: NO_VALUE}]
        if not pa.types.is_nested(field.type):
            refused(f"a value does not fit '{kind}': ", write_rows, new, kind, wrong, {})

        nothing = [row | {name: None}]
        free = pa.schema([one.with_nullable(True) for one in schema])
        pq.write_table(pa.Table.from_pylist(nothing, schema=free), bad)
        if field.nullable:
            assert read_rows(bad, kind) == nothing
        else:
            refused(f"{column} has 1 nulls, allowed: none", read_table, bad, kind)
            refused(f"{column} has 1 nulls, allowed: none", write_rows, new, kind, nothing, {})
    refused(f"{columns}['b']", write_rows, new, kind, [row | {"b": 1}], {})
    if "status" in row:
        unknown = [row | {"status": "fine"}]
        refused("unknown status 'fine'", write_rows, new, kind, unknown, {})
        pq.write_table(pa.Table.from_pylist(unknown, schema=schema), bad)
        refused("unknown status 'fine'", read_table, bad, kind)
    assert sorted(tmp_path.iterdir()) == [bad, good], "no half-written file may remain"
