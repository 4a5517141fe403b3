"""Remove the lock that a killed run of Snakemake leaves in the working directory."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from pisoft.errors import BenchmarkError
from pisoft.workflow.commandline import run
from pisoft.workflow.running import jobs_in, queued_jobs, runs_in, slurm


def main(arguments: argparse.Namespace) -> None:
    """Unlock, unless a run on this machine or a Slurm job is using the folder."""
    folder = arguments.directory
    if not folder.is_dir():
        raise BenchmarkError(f"--directory: no such folder: {folder}")
    # Slurm may be installed where there is no cluster; a folder that has had no job of it is free.
    slurm_used = arguments.jobs or (folder / ".snakemake/slurm_logs").is_dir()
    queue = queued_jobs() if slurm_used else {}
    jobs = jobs_in(folder, queue)
    alive = {None, os.environ.get("SLURM_JOB_ID"), *queue} - {*jobs}
    for process, job in runs_in(folder):
        if job in alive or not slurm_used:
            raise BenchmarkError(
                f"{folder}: process {process} is a run that is working here; let it end, or stop "
                f"it with `kill {process}`"
            )
    if jobs and arguments.jobs not in ("wait", "cancel"):
        raise BenchmarkError(
            f"{folder}: Slurm has jobs of an earlier run here: {' '.join(jobs)}; wait for them by "
            "`profiles/slurm/run --wait`, or end them by `profiles/slurm/run --cancel`"
        )
    if jobs and arguments.jobs == "cancel":
        slurm("scancel", *jobs)
    if jobs:
        print(f"waiting for jobs of Slurm to end here: {' '.join(jobs)}", flush=True)
    # When a job has ended for Slurm, its processes may still be dying.
    for process, job in runs_in(folder):
        print(f"waiting for process {process} of job {job} to end", flush=True)
    while jobs or any(runs_in(folder)):
        time.sleep(arguments.poll)
        jobs = jobs_in(folder, queued_jobs())
    if not (folder / ".snakemake/locks").exists():
        return
    # Without the workflow, which may have been edited into something that is not valid.
    command = [sys.executable, "-m", "snakemake", "--unlock", "--snakefile", os.devnull]
    subprocess.run([*command, "--directory", str(folder)], check=True)


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
