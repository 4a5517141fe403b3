"""Results that a test makes by hand, as a reader of their file gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from pisoft.statistics.results import summary_table


def results(question: str, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a reader of the file gives them; keys and numbers may be missing."""
    return summary_table(question, [pd.DataFrame(list(rows))]).to_pandas()
