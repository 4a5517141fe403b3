"""Which runs, which of their jobs, and which jobs of Slurm are at work in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from pisoft.errors import BenchmarkError

RUNS = "PISOFT_RUNS"  # variable of the environment of jobs: folders of their runs' results


def runs_in(folder: Path) -> Iterator[tuple[int, str | None]]:
    """Yield processes of Snakemake that work in a folder, and the job of Slurm each is part of.

    Jobs that a killed run left behind are among them.
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

    Snakemake's lock excludes other drivers; jobs of a killed driver go on. `results` are several
    folders if the run is a module of another workflow.

    Raises:
        BenchmarkError: there is one, with its process or its id in Slurm.
    """
    written = {path.resolve() for path in results}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if both := written.intersection(_runs_of(process)):
                raise BenchmarkError(
                    f"{min(both)}: process {process.pid} is a job of an earlier run and would "
                    f"write into this one: wait for it, or stop it with `kill {process.pid}`"
                )
    if (folder / ".snakemake/slurm_logs").is_dir() and (jobs := jobs_in(folder, queued_jobs())):
        raise BenchmarkError(
            f"{folder.resolve()}: Slurm has jobs of an earlier run here: {' '.join(jobs)}; wait "
            "for them by `profiles/slurm/run --wait`, or end them by `profiles/slurm/run --cancel`"
        )


def _runs_of(process: psutil.Process) -> set[Path]:
    """Return the folders of results of the runs that a process is a job of."""
    return {*map(Path, filter(None, process.environ().get(RUNS, "").split(os.pathsep)))}


def queued_jobs() -> dict[str, Path]:
    """Return the folder of each job of Slurm that waits, runs or is ending, by its id."""
    if shutil.which("squeue") is None:
        return {}
    listed = (line.split(" ", 1) for line in slurm("squeue", "--noheader", "--format=%A %Z"))
    return {job: Path(directory) for job, directory in listed}


def jobs_in(folder: Path, queue: Mapping[str, Path]) -> list[str]:
    """Return the ids of queued jobs that work in a folder, the present one left out."""
    inside = {job for job, directory in queue.items() if directory.resolve() == folder.resolve()}
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
