"""Results are written completely or not at all."""

import errno

import pytest

from pisoft.errors import BenchmarkError
from pisoft.store.files import whole_files


def test_files_appear_together_at_the_end_of_the_block(tmp_path):
    paths = [tmp_path / f"deep/table.{ending}" for ending in ("csv", "html", "svg")]
    with whole_files(*paths) as written:
        for path in written:
            path.write_text("content", encoding="utf-8")
        assert not any(path.exists() for path in paths)
    assert [path.read_text(encoding="utf-8") for path in paths] == ["content"] * 3
    assert sorted(tmp_path.rglob("*.*")) == sorted(paths)


def test_a_full_disk_keeps_the_previous_files(tmp_path):
    paths = [tmp_path / "table.csv", tmp_path / "table.html"]
    for path in paths:
        path.write_text("before", encoding="utf-8")
    with pytest.raises(BenchmarkError, match=r"table\.csv: cannot be written: .*No space left"):
        fill_the_disk(paths)
    assert [path.read_text() for path in paths] == ["before"] * 2
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def fill_the_disk(paths):
    with whole_files(*paths) as (csv, _):
        csv.write_text("half", encoding="utf-8")
        raise OSError(errno.ENOSPC, "No space left on device")
