"""Results say what settings they were made with, and Snakemake's records which it knows."""

import json

from pisoft.store.files import settings_hash, whole_files
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.stale import made_with, recorded

SETTINGS = json.dumps({"b": "π < 1", "a": [1.0, None]})


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
