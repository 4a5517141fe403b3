"""Which runs, and which jobs of Slurm, are at work in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from pisoft.errors import BenchmarkError


def runs_in(folder: Path) -> Iterator[tuple[int, str | None]]:
    """Yield processes of Snakemake that work in a folder, and the job of Slurm each is part of."""
    for process in psutil.process_iter():
        try:
            named = any(Path(part).name == "snakemake" for part in process.cmdline()[:3])
            if named and Path(process.cwd()).resolve() == folder.resolve():
                yield process.pid, process.environ().get("SLURM_JOB_ID")
        except psutil.Error:  # it has ended, or belongs to somebody else
            continue


def queued_jobs() -> dict[str, Path]:
    """Return the folder of each job of Slurm that waits, runs or is ending, by its id."""
    if shutil.which("squeue") is None:
        return {}
    listed = (line.split(" ", 1) for line in slurm("squeue", "--noheader", "--format=%A %Z"))
    return {job: Path(place) for job, place in listed}


def jobs_in(folder: Path, queue: Mapping[str, Path]) -> list[str]:
    """Return the ids of queued jobs that work in a folder, the present one left out."""
    inside = {job for job, place in queue.items() if place.resolve() == folder.resolve()}
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
