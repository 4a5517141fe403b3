"""Freeing a folder that a killed run has left locked."""

import argparse
import subprocess
import sys

import pytest

import unlock
from pisoft.errors import BenchmarkError

WORKFLOW = "rule all:\n    output: 'made'\n    shell: 'sleep {seconds} && touch {{output}}'\n"
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "1"]


def run(folder, **options):
    return subprocess.Popen(SNAKEMAKE, cwd=folder, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.slow
def test_a_run_at_work_is_left_alone_and_a_killed_one_makes_way(tmp_path, monkeypatch):
    """After SIGKILL a plain call fails with LockException."""
    (tmp_path / "Snakefile").write_text(WORKFLOW.format(seconds=60))
    killed = run(tmp_path)
    locks = tmp_path / ".snakemake/locks"
    while killed.poll() is None and not (locks.is_dir() and list(locks.iterdir())):
        pass
    arguments = argparse.Namespace(directory=tmp_path)
    with pytest.raises(BenchmarkError, match=rf"process {killed.pid} is a run at work here"):
        unlock.main(arguments)
    killed.kill()
    killed.communicate()
    (tmp_path / "Snakefile").write_text(WORKFLOW.format(seconds=0))
    assert "Lock" in run(tmp_path).communicate()[1]
    monkeypatch.chdir(tmp_path)
    unlock.main(arguments)
    again = run(tmp_path)
    again.communicate()
    assert again.returncode == 0
    assert (tmp_path / "made").exists()
