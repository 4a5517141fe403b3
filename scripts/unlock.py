"""Free the working directory of Snakemake's lock, which a killed run leaves behind."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

from pisoft.commandline import run
from pisoft.errors import BenchmarkError


def main(arguments: argparse.Namespace) -> None:
    """Unlock, if neither a run of this machine nor a job of Slurm is at work in the folder."""
    folder = arguments.directory
    # Slurm may be installed where there is no cluster; a folder that has had no job of it is free.
    slurm_used = arguments.jobs or (folder / ".snakemake/slurm_logs").is_dir()
    jobs = jobs_in(folder) if slurm_used else []
    for process in runs_in(folder, jobs):
        raise BenchmarkError(
            f"{folder}: process {process} is a run at work here; let it end, or stop it with "
            f"`kill {process}`"
        )
    if jobs and arguments.jobs not in ("wait", "cancel"):
        raise BenchmarkError(
            f"{folder}: Slurm has jobs of an earlier run here: {' '.join(jobs)}; wait for them by "
            "`profiles/slurm/run --wait`, or end them by `profiles/slurm/run --cancel`"
        )
    if jobs and arguments.jobs == "cancel":
        slurm("scancel", *jobs)
    if jobs:
        print(f"waiting for jobs of an earlier run to end: {' '.join(jobs)}", flush=True)
    while jobs:
        time.sleep(arguments.poll)
        jobs = jobs_in(folder)
    if not (folder / ".snakemake/locks").exists():
        return
    # Without the workflow, which may have been edited into something that is not valid.
    command = [sys.executable, "-m", "snakemake", "--unlock", "--snakefile", os.devnull]
    subprocess.run([*command, "--directory", str(folder)], check=True)


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


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--directory", type=Path, default=Path(), help="where the run was started")
    line.add_argument(
        "--jobs",
        choices=("refuse", "wait", "cancel"),
        help="what is done about Slurm's jobs of an earlier run; refuse, if the folder has had any",
    )
    line.add_argument("--poll", type=float, default=5, help="seconds between questions to Slurm")
    return line


if __name__ == "__main__":
    run(main, parser())
