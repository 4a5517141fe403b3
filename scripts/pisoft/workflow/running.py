"""Runs, their jobs and Slurm jobs that are active in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from pisoft.errors import BenchmarkError

RUNS = "PISOFT_RUNS"  # environment variable of jobs: result folders of their runs


def runs_in(folder: Path) -> Iterator[tuple[int, str | None]]:
    """Yield the Snakemake processes that work in a folder, each with its Slurm job id, if any.

    Jobs that a killed run left behind are included.
    """
    for process in psutil.process_iter():
        try:
            is_snakemake = any(Path(part).name == "snakemake" for part in process.cmdline()[:3])
            is_driver = is_snakemake and Path(process.cwd()).resolve() == folder.resolve()
            if is_driver or any(run.is_relative_to(folder.resolve()) for run in _runs_of(process)):
                yield process.pid, process.environ().get("SLURM_JOB_ID")
        except psutil.Error:  # it has ended, or belongs to somebody else
            continue


def check_idle(folder: Path, results: Iterable[Path]) -> None:
    """Check that no job of an earlier driver still writes results of a run started in `folder`.

    Snakemake's lock excludes other drivers, but jobs of a killed driver go on. `results` has
    several folders if the run is a module of another workflow.

    Raises:
        BenchmarkError: there is such a job; the message names its process or Slurm id.
    """
    written = {path.resolve() for path in results}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if shared := written.intersection(_runs_of(process)):
                raise BenchmarkError(
                    f"{min(shared)}: process {process.pid} is a job of an earlier run and would "
                    f"write into this one: wait for it, or stop it with `kill {process.pid}`"
                )
    if (folder / ".snakemake/slurm_logs").is_dir() and (jobs := jobs_in(folder, queued_jobs())):
        raise BenchmarkError(
            f"{folder.resolve()}: Slurm has jobs of an earlier run here: {' '.join(jobs)}; wait "
            "for them by `profiles/slurm/run --wait`, or end them by `profiles/slurm/run --cancel`"
        )


def _runs_of(process: psutil.Process) -> set[Path]:
    """Return the result folders of the runs that a process is a job of."""
    return {*map(Path, filter(None, process.environ().get(RUNS, "").split(os.pathsep)))}


def queued_jobs() -> dict[str, Path]:
    """Return the folders of pending, running and completing Slurm jobs, by job id."""
    if shutil.which("squeue") is None:
        return {}
    rows = (line.split(" ", 1) for line in slurm("squeue", "--noheader", "--format=%A %Z"))
    return {job: Path(directory) for job, directory in rows}


def jobs_in(folder: Path, queue: Mapping[str, Path]) -> list[str]:
    """Return the ids of queued jobs that work in a folder, except the current job's."""
    inside = {job for job, directory in queue.items() if directory.resolve() == folder.resolve()}
    return sorted(inside - {os.environ.get("SLURM_JOB_ID")}, key=int)


def slurm(*command: str) -> list[str]:
    """Run a Slurm command and return the lines of its output.

    Raises:
        BenchmarkError: the command fails or does not answer.
    """
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{command[0]}: Slurm does not answer within a minute") from error
    if process.returncode:
        raise BenchmarkError(f"{command[0]}: Slurm refuses: {process.stderr.strip()}")
    return process.stdout.splitlines()
