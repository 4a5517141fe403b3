"""Views of results that a test makes by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from helpers.script_runs import display_settings
from pisoft.statistics.reading import Files
from pisoft.statistics.results import select, summary_table
from pisoft.views.view import View

Rows = Iterable[Mapping[str, Any]]


def results(question: str, rows: Rows) -> pd.DataFrame:
    """Return rows as a reader of the file gives them; keys and numbers may be missing."""
    return summary_table(question, [pd.DataFrame(list(rows))]).to_pandas()


class InMemory(Files):
    """Rows that no file holds, by question."""

    def __init__(self, **rows: Rows) -> None:
        """Complete the rows as their files would."""
        super().__init__({question: [Path(question)] for question in rows})
        self.held = {question: results(question, given) for question, given in rows.items()}

    def rows_if_any(self, kind: str, **selection: Collection[str]) -> pd.DataFrame:
        """Return the rows of a question that have one of the given keys."""
        return select(self.held[kind], **selection)


def view_of(settings: Mapping[str, Any], cell: Mapping[str, str], **rows: Rows) -> View:
    """Return what a table or figure gets.

    Args:
        settings: some of those of displays.
        cell: what is shown.
        rows: some of the columns of results, by question.
    """
    return View(InMemory(**rows), display_settings(**settings), cell)
