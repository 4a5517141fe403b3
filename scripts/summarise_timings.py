"""Summarise how long attribution took and how much memory it needed."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.contracts import provenance, write_rows
from pisoft.statistics.timings import timing_rows


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--run", required=True, metavar="NAME", help="recorded with the result")
    line.add_argument(
        "--attributions",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="…/{model}/{method}/{dataset}.parquet",
    )
    line.add_argument("--output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the attributions of every cell, write one row for each."""
    write_rows(
        arguments.output,
        "timings",
        timing_rows(arguments.attributions),
        provenance({"run": arguments.run}),
    )


if __name__ == "__main__":
    run(main, parser())
