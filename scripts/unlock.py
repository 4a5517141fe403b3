"""Free the working directory of Snakemake's lock, which a killed run leaves behind."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Container, Iterator
from pathlib import Path

import psutil

from pisoft.commandline import run
from pisoft.errors import BenchmarkError


def main(arguments: argparse.Namespace) -> None:
    """Unlock, if neither a run of this machine nor a job of Slurm is at work in the folder."""
    folder = arguments.directory
    jobs = jobs_in(folder)
    for process in runs_in(folder, jobs):
        raise BenchmarkError(
            f"{folder}: process {process} is a run at work here; let it end, or stop it with "
            f"`kill {process}`"
        )
    if jobs and not (arguments.wait or arguments.cancel):
        raise BenchmarkError(
            f"{folder}: Slurm has jobs of an earlier run here: {' '.join(jobs)}; wait for them with "
            "--wait, or end them with --cancel"
        )
    if jobs:
        print(f"until they have ended: Slurm's jobs {' '.join(jobs)} of an earlier run", flush=True)
    if jobs and arguments.cancel:
        slurm("scancel", *jobs)
    while jobs_in(folder):
        time.sleep(arguments.poll)
    # Without the workflow, which may have been edited into something that is not valid.
    command = [sys.executable, "-m", "snakemake", "--unlock", "--snakefile", os.devnull]
    subprocess.run([*command, "--directory", str(folder)], check=True)


def runs_in(folder: Path, jobs: Container[str]) -> Iterator[int]:
    """Yield the ids of processes of Snakemake that work in a folder, but not for jobs of Slurm."""
    for process in psutil.process_iter():
        try:
            named = any(Path(part).name == "snakemake" for part in process.cmdline()[:3])
            if named and Path(process.cwd()).resolve() == folder.resolve():
                if process.environ().get("SLURM_JOB_ID") not in jobs:
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
        BenchmarkError: it fails, or has no answer within a minute.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise BenchmarkError(
            f"{command[0]}: Slurm does not say which jobs there are: {error.stderr or error}"
        ) from error
    return done.stdout.splitlines()


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--directory", type=Path, default=Path(), help="where the run was started")
    jobs = line.add_mutually_exclusive_group()
    jobs.add_argument("--wait", action="store_true", help="wait for Slurm's jobs of an earlier run")
    jobs.add_argument("--cancel", action="store_true", help="cancel Slurm's jobs of an earlier run")
    line.add_argument("--poll", type=float, default=5, help="seconds between questions to Slurm")
    return line


if __name__ == "__main__":
    run(main, parser())
