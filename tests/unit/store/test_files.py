"""Results are there whole or not at all, and say what settings they were made with."""

import errno
import json

import pytest

from pisoft.errors import BenchmarkError
from pisoft.store.files import settings_hash, whole_files
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.stale import made_with, recorded

SETTINGS = json.dumps({"b": "π < 1", "a": [1.0, None]})


def test_files_appear_together_once_the_block_has_ended(tmp_path):
    paths = [tmp_path / f"deep/table.{ending}" for ending in ("csv", "html", "svg")]
    with whole_files(SETTINGS, *paths) as written:
        for own in written:
            own.write_text("content", encoding="utf-8")
        assert not any(path.exists() for path in paths)
    assert [path.read_text(encoding="utf-8").partition("\n")[0] for path in paths] == [
        "content"
    ] * 3
    assert paths[0].read_text() == "content", "data is left as it is"
    assert sorted(tmp_path.rglob("*.*")) == sorted(paths)


def test_the_mark_says_which_settings_in_their_order(tmp_path):
    html, svg = paths = (tmp_path / "page.html", tmp_path / "page.svg")
    with whole_files(SETTINGS, *paths) as written:
        for own in written:
            own.write_text("<svg/>", encoding="utf-8")
    assert made_with(html) == made_with(svg) == settings_hash(SETTINGS.replace("<", r"\u003c"))
    turned = json.dumps({"a": [1.0, None], "b": "π < 1"})
    assert made_with(html) != settings_hash(turned), "the order of keys is that of a legend"
    html.write_text("no mark", encoding="utf-8")
    assert made_with(html) is None


def test_parquet_files_hold_their_settings(tmp_path):
    path = tmp_path / "samples.parquet"
    write_rows(path, "samples", [], provenance(json.loads(SETTINGS)))
    assert made_with(path) == settings_hash(json.dumps(json.loads(SETTINGS), sort_keys=True))
    path.write_bytes(b"PAR1")
    assert made_with(path) is None


def test_trained_models_hold_their_settings_in_their_report(tmp_path):
    path = tmp_path / "training.json"
    path.write_text(json.dumps({"accuracy": 1.0, "settings": json.loads(SETTINGS)}))
    assert made_with(path) == settings_hash(SETTINGS)
    for damaged in ("{}", "[1]", "{", "\x00"):
        path.write_text(damaged)
        assert made_with(path) is None, damaged


def test_a_full_disk_leaves_what_was_there(tmp_path):
    paths = [tmp_path / "table.csv", tmp_path / "table.html"]
    for path in paths:
        path.write_text("before", encoding="utf-8")
    with pytest.raises(BenchmarkError, match=r"table\.csv: cannot be written: .*No space left"):
        fill_the_disk(paths)
    assert [path.read_text() for path in paths] == ["before"] * 2
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def fill_the_disk(paths):
    with whole_files(SETTINGS, *paths) as (csv, _):
        csv.write_text("half", encoding="utf-8")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_the_records_of_snakemake_are_found_by_its_own_names(tmp_path):
    from snakemake.persistence.file import FilePersistence

    names = ["results/a.parquet", f"results/{'x' * 300}.parquet"]
    writer = FilePersistence.__new__(FilePersistence)
    writer._max_len = None
    (tmp_path / "metadata").mkdir()
    for name in names:
        writer._io_write(str(tmp_path / "metadata"), {}, name)
    assert recorded(tmp_path / "metadata") == set(names)
    assert recorded(tmp_path / "nothing") == set()
