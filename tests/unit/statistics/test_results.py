"""Result tables: empty keys, unique numbers, selection."""

import numpy as np
import pandas as pd
import pytest

from pisoft.statistics.results import KEYS, select, summary_table
from pisoft.store.schemas import SCHEMAS

NUMBERS = pd.DataFrame({"metric": ["a", "a"], "method": ["x", "y"], "value": [1, np.nan]})


def test_missing_keys_are_empty_and_missing_numbers_null():
    table = summary_table("ranks", [NUMBERS, NUMBERS.assign(position=0.5, text=None, n=3)])
    assert table.schema == SCHEMAS["ranks"]
    rows = table.to_pandas()
    assert (rows["question"] == "ranks").all()
    texts = [key for key in (*KEYS, "best", "text") if key not in ("metric", "method", "position")]
    assert (rows[texts] == "").all(axis=None)
    assert rows["position"].tolist() == [pytest.approx(np.nan, nan_ok=True)] * 2 + [0.5] * 2
    assert table["value"].null_count == 2
    assert rows["n"].tolist() == [0, 0, 3, 3]

    assert summary_table("ranks", []).equals(SCHEMAS["ranks"].empty_table())


def test_unknown_columns_and_duplicate_keys_are_errors():
    with pytest.raises(ValueError, match=r"ranks: results have no column \['pi'\]"):
        summary_table("ranks", [NUMBERS.assign(pi=0.5)])
    with pytest.raises(ValueError, match=r"two numbers of the same keys: .*'method': 'x'"):
        summary_table("ranks", [NUMBERS, NUMBERS.assign(value=2.0)[:1]])


def test_rows_are_selected_by_one_value_or_several():
    rows = summary_table("ranks", [NUMBERS]).to_pandas()
    assert select(rows, method="x")["method"].tolist() == ["x"]
    assert select(rows, method={"y": "Label"}, metric=("a", "b"))["method"].tolist() == ["y"]
    assert select(rows, metric="b").empty
