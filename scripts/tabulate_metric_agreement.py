"""Write the table of how far metrics agree on one model's methods as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import TABLE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.reading import load_rows
from pisoft.tables.metric_agreement import metric_agreement_table
from pisoft.tables.writer import write


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, TABLE, "model")
    line.add_argument("--statistics", required=True, type=Path, help="statistics file")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the model's statistics and write the table."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    statistics = load_rows(arguments.statistics, "statistics", model=arguments.model)
    table = metric_agreement_table(
        statistics, where=settings.models[arguments.model], datasets=settings.datasets
    )
    write(table, arguments.csv, arguments.tex, arguments.html)


if __name__ == "__main__":
    run(main, parser())
