"""List the results of a run that are missing, stale, damaged or without a seal; change nothing."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from pisoft.config.commandline import run_file, run_file_of, run_file_parser
from pisoft.errors import BenchmarkError
from pisoft.workflow.commandline import run
from pisoft.workflow.seals import LISTING, MISSING, PROBLEMS, UNSEALED

ROOT = Path(__file__).parents[1]
CONFIG = Path(os.path.relpath(ROOT / "config"))


def main(arguments: argparse.Namespace) -> None:
    """Print each such result and the commands that fix them; exit with 1 if there are any.

    Raises:
        BenchmarkError: the run file is not valid.
    """
    if arguments.run:
        arguments.configfile = [run_file_of(arguments.run, CONFIG)]
    run_file(arguments)  # Snakemake's messages do not name a file it cannot read
    options = ["--configfile", *map(str, arguments.configfile)]
    if arguments.config:
        options += ["--config", *arguments.config]
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    listed = subprocess.run(
        [*command, "--dry-run", *options],
        env=os.environ | {LISTING: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if listed.returncode:
        raise BenchmarkError(listed.stdout.strip())
    lines = [line for line in listed.stdout.splitlines() if line.endswith(PROBLEMS)]
    planned = re.findall(r"^Reason: Missing output files: ([^;\n]+)", listed.stdout, flags=re.M)
    with_seal = {line.removesuffix(f" {MISSING}") for line in lines}
    absent = [file for files in planned for file in files.split(", ") if file not in with_seal]
    if not (lines or absent):
        print("every result is there and matches its seal")
        return
    print(*lines, *(f"{file} is missing" for file in absent), sep="\n")
    unsealed = [line.removesuffix(f" {UNSEALED}") for line in lines if line.endswith(UNSEALED)]
    n_sealed, call = len(lines) - len(unsealed), " ".join(options)
    if unsealed:
        # A call without names would be refused for the others.
        names = f" -- {' '.join(unsealed)}" if n_sealed or absent else ""
        print(f"\nvouch for those without a seal: snakemake --touch --cores 1 {call}{names}")
    if n_sealed:
        count = f"other {n_sealed}" if unsealed else n_sealed
        print(f"\nrecompute the {count}: snakemake --cores all {call}")
    elif absent:
        print(f"\ncompute the {len(absent)} missing: snakemake --cores all {call}")
    sys.exit(1)


if __name__ == "__main__":
    parser = run_file_parser(__doc__, CONFIG / "config.yaml")
    parser.add_argument("--run", type=Path, help="a run's folder, in place of its run file")
    run(main, parser)
