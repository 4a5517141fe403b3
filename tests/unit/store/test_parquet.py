"""Typed files: valid rows are stored, invalid ones refused, and writes are atomic."""

import errno
import os
import platform
import re
import stat
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pisoft
from helpers.explained_rows import answer
from helpers.workflow_rules import parsed_rules
from pisoft.errors import BenchmarkError
from pisoft.store import parquet
from pisoft.store.parquet import (
    made_with,
    meanings,
    provenance,
    read_provenance,
    read_rows,
    read_table,
    write_rows,
)
from pisoft.store.schemas import FILES

ROW = {"sample_id": "d/1", "step": 0, "raw_scores": [0.5, 1.0], "converged": None, "status": "ok"}
STATUS = "nonfinite_attribution"


def test_rows_and_provenance_survive_a_round_trip(tmp_path):
    path = tmp_path / "deep" / "a.parquet"
    write_rows(path, "attributions", [ROW], provenance({"seed": 1}, device="cpu"))
    assert read_rows(path, "attributions") == [ROW]
    stored = read_provenance(path)
    assert stored["settings"] == {"seed": 1}
    assert stored["device"] == "cpu"
    assert stored["kind"] == "attributions"
    packages = {"torch", "transformers", "tokenizers", "inseq", "captum", "bitsandbytes", "numpy"}
    packages |= {"datasets", "pyarrow", "pandas"}
    assert stored["packages"] == {name: version(name) for name in packages}
    assert stored["python"] == platform.python_version()
    assert made_with([path])["python"] == (stored["python"],)
    assert re.fullmatch("[0-9a-f]{40}", stored["git_commit"] or 40 * "0")


def test_files_are_compressed_and_byte_identical_for_equal_content(tmp_path):
    paths = [tmp_path / "one.parquet", tmp_path / "other.parquet"]
    for path, facts in zip(
        paths, ({"seed": 1, "device": "cpu"}, {"device": "cpu", "seed": 1}), strict=True
    ):
        write_rows(path, "attributions", [ROW], facts)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert pq.ParquetFile(paths[0]).metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_file_modes_respect_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_rows(tmp_path / "scores.parquet", "attributions", [ROW], {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "scores.parquet").stat().st_mode) == 0o666 & ~umask


def test_an_interrupted_write_is_one_error_and_keeps_the_old_file(tmp_path):
    """A real write error: a limit on file sizes simulates a full disk."""
    path = tmp_path / "cell.parquet"
    write_rows(path, "attributions", [ROW], {})
    code = (
        "import argparse, random, resource, signal\n"
        "from pathlib import Path\n"
        "from pisoft.store.parquet import write_rows\n"
        "from pisoft.workflow.commandline import run\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"row = {ROW | {'raw_scores': None}}\n"
        "row['raw_scores'] = [random.random() for _ in range(100_000)]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        f"path = Path({str(path)!r})\n"
        "run(lambda _: write_rows(path, 'attributions', [row], {}), argparse.ArgumentParser())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(pisoft.__file__).parents[1])}
    finished = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert finished.returncode == 1
    assert finished.stderr.startswith("error: "), finished.stderr
    assert "cell.parquet: cannot be written: " in finished.stderr
    assert list(tmp_path.iterdir()) == [path]
    assert read_rows(path, "attributions") == [ROW]


def test_a_flipped_bit_is_refused_and_never_changes_a_number(tmp_path):
    path = tmp_path / "a.parquet"
    scores = np.random.default_rng(0).random(10_000, dtype=np.float32)
    write_rows(path, "attributions", [ROW | {"raw_scores": scores.tolist()}], {})
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 2] ^= 1
    path.write_bytes(stored)
    with pytest.raises(BenchmarkError, match=r"a\.parquet: is not a readable.*delete the file"):
        read_table(path, "attributions")


def test_a_flipped_bit_in_the_schema_gives_no_traceback(tmp_path):
    path = tmp_path / "a.parquet"
    write_rows(path, "attributions", [ROW], {})
    stored = path.read_bytes()
    for index in range(len(stored) - 500, len(stored)):
        path.write_bytes(stored[:index] + bytes([stored[index] ^ 2]) + stored[index + 1 :])
        with suppress(BenchmarkError):
            assert read_rows(path, "attributions") == [ROW]


def test_a_file_replaced_during_reading_is_read_in_its_old_state(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_rows(path, "attributions", [ROW], {})

    def read_schema(file):
        write_rows(path, "attributions", [ROW | {"step": 1}] * 1000, {})
        return schema(file)

    schema = pq.read_schema
    monkeypatch.setattr(parquet.pq, "read_schema", read_schema)
    assert read_rows(path, "attributions") == [ROW]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": None}, "column 'step' has 1 nulls, allowed: none"),
        ({"raw_scores": [0.5, None]}, "column 'raw_scores' has 1 nulls, allowed: none"),
        ({"step": "first"}, "a value does not fit 'attributions'"),
        ({"step": 2**70}, "a value does not fit 'attributions'"),
        ({"sample_id": "\ud83d"}, "a value does not fit 'attributions'"),
        ({"status": "okay"}, "unknown status 'okay'; did you mean 'ok'?"),
    ],
)
def test_an_invalid_row_is_not_written(change, message, tmp_path):
    path = tmp_path / "a.parquet"
    with pytest.raises(BenchmarkError, match=re.escape(message)):
        write_rows(path, "attributions", [ROW | change], {})
    assert not path.exists()


@pytest.mark.parametrize(
    "gap",
    [
        None,
        {"answer": "a", "evidence": None, "fields": {}},
        {"answer": "a", "evidence": [{"field": "f", "start": 0, "end": None}], "fields": {}},
        {"answer": "a", "evidence": [], "fields": {"text": None}},
    ],
)
def test_a_gap_inside_a_nested_value_is_refused(gap, tmp_path):
    record = dict.fromkeys(("label", "answer", "evidence", "cluster"))
    record |= {"sample_id": "a", "fields": {"f": "t"}, "status": "ok", "counterfactuals": [gap]}
    with pytest.raises(BenchmarkError, match="column 'counterfactuals' has 1 nulls, allowed: none"):
        write_rows(tmp_path / "a.parquet", "datasets", [record], {})


CURVE = dict.fromkeys(("protocol", "model", "method", "dataset", "sample_id", "metric"), "m")


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("soft_sample_curves", CURVE | {"values": [0.5, None]}),
        ("generations", answer("a") | {"counterfactual_labels": ["Good", None]}),
    ],
)
def test_a_curve_and_answers_to_counterfactuals_may_have_gaps(kind, row, tmp_path):
    write_rows(tmp_path / "a.parquet", kind, [row], {})
    assert read_rows(tmp_path / "a.parquet", kind) == [row]


def test_a_text_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    write_rows(path, "attributions", [ROW], {})
    table = pq.read_table(path)
    buffers = [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    pq.write_table(
        table.set_column(0, "sample_id", pa.Array.from_buffers(pa.string(), 1, buffers)), path
    )
    with pytest.raises(BenchmarkError, match=r"a\.parquet: is not a readable.*UTF8"):
        read_rows(path, "attributions")


def test_failed_rows_are_reported_by_status(tmp_path, caplog):
    failed = [
        ROW | {"raw_scores": None, "status": status} for status in (*2 * [STATUS], "no_evidence")
    ]
    write_rows(tmp_path / "a.parquet", "attributions", [ROW, *failed], {})
    assert caplog.messages == ["a.parquet: of 4 rows, 1 no_evidence, 2 nonfinite_attribution"]
    assert meanings(["ok", STATUS, "no_evidence", STATUS]) == (
        "nonfinite_attribution: a score is not a finite number; "
        "no_evidence: no token of the prompt is marked as evidence"
    )


def test_a_corrupt_file_is_named_with_the_fix(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 this is no Parquet file PAR1")
    with pytest.raises(BenchmarkError, match=r"a\.parquet: is not a readable.*delete the file"):
        read_table(path, "attributions")
    with pytest.raises(BenchmarkError, match="no such file; the workflow makes it"):
        read_table(tmp_path / "b.parquet", "attributions")


def test_an_unreadable_file_is_not_called_corrupt(tmp_path, monkeypatch):
    def refuse(file):
        raise PermissionError(errno.EACCES, f"Failed to open local file '{file}'")

    monkeypatch.setattr(parquet.pa, "OSFile", refuse)
    with pytest.raises(BenchmarkError, match=r"a\.parquet: cannot be read: .*'$"):
        read_table(tmp_path / "a.parquet", "attributions")


def test_every_kind_of_file_is_written_by_a_rule():
    outputs = (str(file) for rule in parsed_rules().values() for file in rule.output)
    written = {re.sub(r"{(\w+),[^}]*}", r"{\1}", path) for path in outputs}
    for kind, file in FILES.items():
        paths = (file.path, file.path.replace("{dataset}", "{part}"))
        assert written & {f"results/demo/data/{path}.parquet" for path in paths}, kind
