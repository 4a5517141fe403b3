"""Write the table of attribution's time and memory as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import TABLE, display_parser, run
from pisoft.config.slices.display import TimingsSlice
from pisoft.statistics.reading import load_rows
from pisoft.tables.timings import timings_table
from pisoft.tables.writer import write


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, TABLE)
    line.add_argument("--timings", required=True, type=Path, help="timings file")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the summary file and write the table."""
    settings = TimingsSlice.model_validate_json(arguments.settings)
    table = timings_table(load_rows(arguments.timings, "timings"), **dict(settings))
    write(table, arguments.csv, arguments.tex, arguments.html)


if __name__ == "__main__":
    run(main, parser())
