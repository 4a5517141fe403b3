"""Free the working directory of Snakemake's lock, which a killed run leaves behind."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from pisoft.commandline import run
from pisoft.errors import BenchmarkError


def main(arguments: argparse.Namespace) -> None:
    """Unlock, if no run of this machine is at work in the folder."""
    for process in runs_in(arguments.directory):
        raise BenchmarkError(
            f"{arguments.directory}: process {process} is a run at work here; let it end, or stop "
            f"it with `kill {process}`"
        )
    command = [sys.executable, "-m", "snakemake", "--unlock", "--directory"]
    subprocess.run([*command, str(arguments.directory)], check=True)


def runs_in(folder: Path) -> Iterator[int]:
    """Yield the ids of processes of Snakemake that work in a folder."""
    for process in psutil.process_iter():
        try:
            named = any("snakemake" in part for part in process.cmdline()[:3])
            if named and Path(process.cwd()).resolve() == folder.resolve():
                yield process.pid
        except psutil.Error:  # it has ended, or belongs to somebody else
            continue


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--directory", type=Path, default=Path(), help="where the run was started")
    return line


if __name__ == "__main__":
    run(main, parser())
