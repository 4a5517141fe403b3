"""Write the table of insertion and deletion of one model as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import TABLE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.reading import load_rows, present
from pisoft.tables.insertion_deletion import insertion_deletion_table
from pisoft.tables.writer import write


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, TABLE, "model")
    line.add_argument("--statistics", required=True, type=Path, help="statistics file")
    line.add_argument("--samples", required=True, type=Path, help="ranking_samples file")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the samples and write the table."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    samples = load_rows(arguments.samples, "ranking_samples", model=arguments.model)
    statistics = load_rows(arguments.statistics, "statistics", model=arguments.model)
    table = insertion_deletion_table(
        statistics[statistics["protocol"].isna()],
        samples,
        where=settings.models[arguments.model],
        methods=present(settings.methods, samples),
        datasets=settings.datasets,
    )
    write(table, arguments.csv, arguments.tex, arguments.html)


if __name__ == "__main__":
    run(main, parser())
