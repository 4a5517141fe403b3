"""Say what is wrong with a run's summary, an entry of the leaderboard: a line for each defect."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.errors import BenchmarkError
from pisoft.pages.summary_checks import problems
from pisoft.workflow.commandline import run


def main(arguments: argparse.Namespace) -> None:
    """Print the defects of a file, or that there is none."""
    lines = problems(arguments.file)
    for line in lines:
        print(line)
    if lines:
        raise BenchmarkError(f"{arguments.file}: cannot be an entry as it is; see above")
    print(f"{arguments.file}: fine")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("file", type=Path, help="such as docs/leaderboard/my-run.json")
    return line


if __name__ == "__main__":
    run(main, parser())
