"""Compare the orders of the methods in two finished runs, such as with different scopes."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.errors import BenchmarkError
from pisoft.statistics.between_runs import compare_runs, report
from pisoft.statistics.reading import load_rows
from pisoft.workflow.commandline import run

STATISTICS = Path("data/summary/statistics.parquet")


def main(arguments: argparse.Namespace) -> None:
    """Print a line for each protocol, model, metric and dataset in both runs."""
    if len(arguments.runs) != 2:
        raise BenchmarkError(f"RUNS: two folders of runs are compared, got {len(arguments.runs)}")
    rows = compare_runs(
        *(load_rows(folder / STATISTICS, "statistics") for folder in arguments.runs)
    )
    if rows.empty:
        raise BenchmarkError("RUNS: the two have no protocol, model and dataset in common")
    print(report(rows))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="folder such as results/demo"
    )
    return line


if __name__ == "__main__":
    run(main, parser())
