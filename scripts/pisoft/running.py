"""Which runs, and which jobs of Slurm, are at work in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

from pisoft.errors import BenchmarkError


def runs_in(folder: Path, jobs: Collection[str | None]) -> Iterator[int]:
    """Yield the ids of processes of Snakemake that work in a folder, but not for jobs of Slurm."""
    for process in psutil.process_iter():
        try:
            named = any(Path(part).name == "snakemake" for part in process.cmdline()[:3])
            here = named and Path(process.cwd()).resolve() == folder.resolve()
            if here and process.environ().get("SLURM_JOB_ID") not in jobs:
                yield process.pid
        except psutil.Error:  # it has ended, or belongs to somebody else
            continue


def jobs_in(folder: Path) -> list[str]:
    """Return the ids of Slurm's jobs that wait or run in a folder, the present one left out."""
    if shutil.which("squeue") is None:
        return []
    listed = (line.split(" ", 1) for line in slurm("squeue", "--noheader", "--format=%A %Z"))
    inside = {job for job, place in listed if Path(place).resolve() == folder.resolve()}
    return sorted(inside - {os.environ.get("SLURM_JOB_ID")}, key=int)


def slurm(*command: str) -> list[str]:
    """Return the lines that a command of Slurm prints.

    Raises:
        BenchmarkError: it fails, or does not answer.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{command[0]}: Slurm does not answer within a minute") from error
    if done.returncode:
        raise BenchmarkError(f"{command[0]}: Slurm refuses: {done.stderr.strip()}")
    return done.stdout.splitlines()
