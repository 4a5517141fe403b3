"""The page of the docs that lists every Parquet file: where it lies, its rows and its columns."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from pisoft.config.reference import markdown_table
from pisoft.store.parquet import STATUSES
from pisoft.store.schemas import FILES, RESULT, Column

PAGE = "docs/reference/contracts.md"
_INTRODUCTION = """\
# Data contracts

*Written by `make schema`; edit `scripts/pisoft/store/schemas.py` and
`contracts.py`.*

Every Parquet file below `results/<run>/data/` is checked against these columns when it is written
and when it is read. Writing is atomic. What failed is a row with a `status`, never a missing row,
and each file carries the settings, package versions and commit that made it
([how to read them](../how-to/read-the-results.md)). A dataset that is cut into
[shards](../how-to/run-on-real-models.md#shards) has a folder `{dataset}/` in place of
`{dataset}.parquet`, with a file for each, named after the places of its samples; its records, and
what lies in `summary/`, are not cut. `{operator}` and `{variant}` are empty, or a name behind an
`@`: `soft/dynamic@mean/llama/saliency/sst2` has draws of another operator of ablation than the
run's, `attributions/llama@reinit-4/saliency/sst2` scores on a model whose last four layers are
reinitialised.
"""
_RESULTS = """\
## Results

All numbers that tables, figures and pages show have the same columns, one row per number. No two
rows of a file have the same keys (`protocol` to `position`).
"""


def contracts_page() -> str:
    """Return the reference of all kinds of Parquet files as Markdown."""
    statuses: list[tuple[str, ...]] = [(f"`{name}`", text) for name, text in STATUSES.items()]
    parts = [_INTRODUCTION, markdown_table(("status", "meaning"), statuses)]
    results = {kind: file for kind, file in FILES.items() if file.columns is RESULT}
    for kind, file in FILES.items():
        if kind not in results:
            place = f"`results/{{run}}/data/{file.path}.parquet`"
            parts += [f"## `{kind}`\n", f"{place}, one row for each {file.row}.\n"]
            parts.append(_columns(file.columns))
    questions = [(f"`{file.path}`", file.row) for file in results.values()]
    parts += [_RESULTS, _columns(RESULT), markdown_table(("file", "one row for each"), questions)]
    return "\n".join(parts)


def _columns(columns: Iterable[Column]) -> str:
    rows = [
        (f"`{c.name}`", _words(c.kind), "allowed" if c.nullable else "never", c.meaning)
        for c in columns
    ]
    return markdown_table(("column", "type", "null", "meaning"), rows)


def _words(kind: pa.DataType) -> str:
    """Return a type in words."""
    if pa.types.is_list(kind):
        return f"list of {_words(kind.value_type)}"
    if pa.types.is_map(kind):
        return f"map of {_words(kind.key_type)} to {_words(kind.item_type)}"
    if pa.types.is_struct(kind):
        return f"struct of {', '.join(f'{field.name} ({_words(field.type)})' for field in kind)}"
    return {"float": "float32", "double": "float64"}.get(str(kind), str(kind))
