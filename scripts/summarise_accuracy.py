"""Summarise how well the models solve the datasets, and how long prompts and answers are."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.contracts import provenance, write_rows
from pisoft.errors import BenchmarkError
from pisoft.statistics.accuracy import accuracy_rows


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--run", required=True, metavar="NAME", help="recorded with the result")
    for kind in ("prompts", "generations"):
        line.add_argument(
            f"--{kind}",
            required=True,
            nargs="+",
            type=Path,
            metavar="FILE",
            help="…/{model}/{dataset}.parquet, as for the other",
        )
    line.add_argument("--output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read prompts and generations of every model and dataset, write one row for each pair."""
    prompts, generations = arguments.prompts, arguments.generations
    if len(prompts) != len(generations):
        raise BenchmarkError(f"--generations: {len(generations)} for {len(prompts)} of --prompts")
    rows = accuracy_rows(zip(prompts, generations, strict=True))
    write_rows(arguments.output, "accuracy", rows, provenance({"run": arguments.run}))


if __name__ == "__main__":
    run(main, parser())
