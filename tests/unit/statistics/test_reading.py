"""Reading summary files back."""

import pytest

from helpers.result_rows import statistics_row
from pisoft.errors import BenchmarkError
from pisoft.statistics.reading import Files
from pisoft.store.parquet import write_rows


def test_rows_are_read_by_selection_and_missing_ones_are_named(tmp_path):
    path = tmp_path / "s.parquet"
    row = statistics_row("soft_ns", "sst2", "a", 0.1)
    write_rows(path, "statistics", [row | {"protocol": p} for p in ("dynamic", "fixed", "")], {})
    files = Files({"statistics": [path]})
    rows = files.rows("statistics", protocol="fixed", dataset="sst2")
    assert rows["protocol"].tolist() == ["fixed"]
    with pytest.raises(BenchmarkError, match="no row for model 'mistral'"):
        files.rows("statistics", model="mistral")
    rows = files.rows_if_any("statistics", protocol=("fixed", ""), model=("llama", ""))
    assert rows["protocol"].tolist() == ["fixed", ""]
    assert files.rows_if_any("statistics", model=("gpt", "")).empty
    with pytest.raises(BenchmarkError, match="none of kind 'curves' is given"):
        files.rows("curves")
