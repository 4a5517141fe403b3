"""Typed files: what fits is stored, what does not is refused, and nothing is half-written."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pisoft
from helpers.workflow_rules import parsed_rules
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import provenance, read_provenance, read_rows, read_table, write_rows
from pisoft.store.schemas import FILES

ROW = {
    "sample_id": "d/1",
    "step": 0,
    "raw_scores": [0.5, 1.0],
    "converged": None,
    "status": "ok",
}


def test_rows_come_back_with_their_provenance(tmp_path):
    path = tmp_path / "deep" / "a.parquet"
    write_rows(path, "attributions", [ROW], provenance({"seed": 1}, device="cpu"))
    assert read_rows(path, "attributions") == [ROW]
    stored = read_provenance(path)
    assert stored["settings"] == {"seed": 1}
    assert stored["device"] == "cpu"
    assert stored["kind"] == "attributions"
    packages = {"torch", "transformers", "tokenizers", "inseq", "captum", "bitsandbytes", "numpy"}
    assert stored["packages"].keys() >= packages
    assert set(stored) >= {"python", "git_commit"}


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_a_file_has_the_mode_that_the_umask_leaves(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_rows(tmp_path / "scores.parquet", "attributions", [ROW], {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "scores.parquet").stat().st_mode) == 0o666 & ~umask


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_rows(path, "attributions", [ROW], {})

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(BenchmarkError, match=r"a\.parquet: cannot be written: .*No space left"):
        write_rows(path, "attributions", [ROW | {"step": 5}], {})
    assert read_rows(path, "attributions") == [ROW]
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]


def test_a_file_that_the_system_cuts_short_is_one_error_and_leaves_nothing(tmp_path):
    """The real thing: a limit on the size of files stands for a full disk."""
    code = (
        "import random, resource, signal, sys\n"
        "from pathlib import Path\n"
        "from pisoft.store.parquet import write_rows\n"
        "from pisoft.workflow.commandline import run\n"
        "import argparse\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "row = {'sample_id': 'a', 'step': 0, 'converged': None, 'status': 'ok'}\n"
        "row['raw_scores'] = [random.random() for _ in range(100_000)]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        f"path = Path({str(tmp_path / 'cell.parquet')!r})\n"
        "run(lambda _: write_rows(path, 'attributions', [row], {}), argparse.ArgumentParser())\n"
    )
    other = tmp_path / "finished.parquet"
    write_rows(other, "attributions", [ROW], {})
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(pisoft.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 1
    assert "cell.parquet: cannot be written: " in finished.stderr
    assert finished.stderr.startswith("error: "), finished.stderr
    assert list(tmp_path.iterdir()) == [other]
    assert read_rows(other, "attributions") == [ROW]


def test_rows_that_failed_are_told(tmp_path, caplog):
    failed = ROW | {"raw_scores": None, "status": "nonfinite_attribution"}
    write_rows(tmp_path / "a.parquet", "attributions", [ROW, failed, failed], {})
    assert caplog.messages == ["a.parquet: of 3 rows, 2 nonfinite_attribution"]


def test_a_corrupt_file_is_named_with_the_fix(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 this is no Parquet file PAR1")
    with pytest.raises(BenchmarkError, match=r"a\.parquet: is not a readable.*delete the file"):
        read_table(path, "attributions")
    with pytest.raises(BenchmarkError, match="no such file"):
        read_table(tmp_path / "b.parquet", "attributions")


def test_every_kind_lies_where_a_rule_writes_it():
    outputs = (str(file) for rule in parsed_rules().values() for file in rule.output)
    written = {re.sub(r"{(\w+),[^}]*}", r"{\1}", path) for path in outputs}
    for kind, file in FILES.items():
        paths = (file.path, file.path.replace("{dataset}", "{part}"))
        assert written & {f"results/demo/data/{path}.parquet" for path in paths}, kind
