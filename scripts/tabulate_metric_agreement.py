"""Write the table of how far metrics agree on one model's methods as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.analysis.agreement_tables import metric_agreement_table
from pisoft.analysis.summary import load_rows
from pisoft.analysis.table_writer import write
from pisoft.commandline import run
from pisoft.display_settings import DisplaySlice


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="DisplaySlice as JSON")
    line.add_argument("--statistics", required=True, type=Path, help="statistics file")
    line.add_argument("--model", required=True)
    for kind in ("csv", "tex", "html"):
        line.add_argument(f"--{kind}", required=True, type=Path)
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
