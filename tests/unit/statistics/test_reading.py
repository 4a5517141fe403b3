"""Reading summary files back."""

import pytest

from helpers.result_rows import statistics_row
from helpers.soft_files import GRID, STATISTICS, soft_rows, write_soft
from pisoft.errors import BenchmarkError
from pisoft.statistics.reading import Files, load_rows
from pisoft.statistics.soft import summarise
from pisoft.store.parquet import read_rows, write_rows, write_table


def test_written_summaries_are_read_back_by_selection(tmp_path):
    samples, curves, _ = summarise([write_soft(tmp_path, soft_rows({"a": 1}))], **STATISTICS)
    write_table(tmp_path / "samples.parquet", "soft_samples", samples, {})
    write_table(tmp_path / "curves.parquet", "curves", curves, {})
    assert read_rows(tmp_path / "samples.parquet", "soft_samples") == samples.to_pylist()
    rows = load_rows(tmp_path / "curves.parquet", "curves", model="llama", dataset="sst2")
    assert len(rows) == 2 * len(GRID)
    with pytest.raises(BenchmarkError, match="no row for model 'mistral'"):
        load_rows(tmp_path / "curves.parquet", "curves", model="mistral")


def test_a_kind_of_file_that_is_not_given_is_named():
    with pytest.raises(BenchmarkError, match="none of kind 'soft_samples' is given"):
        Files({"curves": []}).rows("soft_samples")


def test_rows_of_several_values_are_read_and_none_is_no_error(tmp_path):
    row = statistics_row("soft_ns", "sst2", "a", 0.1)
    rows = [row | {"protocol": protocol} for protocol in ("dynamic", "fixed", "")]
    write_rows(tmp_path / "s.parquet", "statistics", rows, {})
    files = Files({"statistics": [tmp_path / "s.parquet"]})
    rows = files.rows_if_any("statistics", protocol=("fixed", ""), model=("llama", ""))
    assert rows["protocol"].tolist() == ["fixed", ""]
    assert files.rows_if_any("statistics", model=("gpt", "")).empty
