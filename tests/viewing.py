"""Views of results made by hand, as the functions of tables and figures take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pisoft.contracts import write_table
from pisoft.statistics.reading import Files
from pisoft.statistics.results import results_table
from pisoft.views import View
from rooms import display_settings

Rows = Iterable[Mapping[str, Any]]


def results(question: str, rows: Rows) -> pd.DataFrame:
    """Return rows as a reader of the file gives them; keys and numbers may be missing."""
    return results_table(question, [pd.DataFrame(list(rows))]).to_pandas()


def view(
    folder: Path, labels: Mapping[str, Any], cell: Mapping[str, str], **questions: Rows
) -> View:
    """Write the results of each question to a file, and return the view of a cell of them."""
    files = Files({question: [folder / f"{question}.parquet"] for question in questions})
    for question, rows in questions.items():
        table = results_table(question, [pd.DataFrame(list(rows))])
        write_table(files[question][0], question, table, {})
    return View(files, display_settings(**labels), cell)
