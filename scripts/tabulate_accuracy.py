"""Write the table of what the models answered as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import TABLE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.reading import load_rows
from pisoft.tables.accuracy import accuracy_table
from pisoft.tables.writer import write


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, TABLE)
    line.add_argument("--accuracy", required=True, type=Path, help="accuracy file")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the summary file and write the table."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    rows = load_rows(arguments.accuracy, "accuracy")
    table = accuracy_table(rows, models=settings.models, datasets=settings.datasets)
    write(table, arguments.csv, arguments.tex, arguments.html)


if __name__ == "__main__":
    run(main, parser())
