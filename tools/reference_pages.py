"""Generated reference pages of the docs: the Parquet files, and the settings of the paper."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from configuration_reference import markdown_table
from documents import render
from pisoft.config.jobs.pages import PublishedJob
from pisoft.formatting import NOTHING
from pisoft.statistics.published_settings import as_text, compared_settings
from pisoft.store.parquet import STATUSES
from pisoft.store.schemas import FILES, RESULT, Column

CONTRACTS = "docs/reference/contracts.md"
PAPER_SETTINGS = "docs/reference/paper-settings.md"


def contracts_page() -> str:
    """Return the reference of all kinds of Parquet files as Markdown."""
    statuses = [(f"`{name}`", text) for name, text in STATUSES.items()]
    results = {kind: file for kind, file in FILES.items() if file.columns is RESULT}
    files = {kind: file for kind, file in FILES.items() if kind not in results}
    questions = [(f"`{file.path}`", file.row) for file in results.values()]
    return render(
        "contracts.md.jinja",
        statuses=markdown_table(("status", "meaning"), statuses),
        files=files,
        columns={kind: _columns(file.columns) for kind, file in files.items()},
        columns_of_results=_columns(RESULT),
        questions=markdown_table(("file", "one row for each"), questions),
    )


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


def paper_settings_page(job: PublishedJob) -> str:
    """Return all settings of `config/paper.yaml` next to the paper's, as Markdown."""
    rows = []
    for compared in compared_settings(job):
        where = compared.setting.where or NOTHING
        paper = as_text(compared.setting.paper) if compared.setting.where else NOTHING
        rows.append((f"`{compared.key}`", as_text(compared.here), paper, compared.verdict, where))
    table = markdown_table(("setting", "`paper.yaml`", "paper", "verdict", "where"), rows)
    return render("paper_settings.md.jinja", table=table)
