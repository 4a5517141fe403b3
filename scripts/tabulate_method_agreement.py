"""Write the table of how far methods agree on one model's tokens as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from pisoft.commandline import TABLE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.reading import load_rows
from pisoft.tables.method_agreement import method_agreement_table
from pisoft.tables.writer import write


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, TABLE, "model")
    line.add_argument(
        "--agreement",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="…/{model}/{dataset}.parquet",
    )
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the agreement on every dataset and write the table."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    agreement = pd.concat([load_rows(path, "agreement") for path in arguments.agreement])
    table = method_agreement_table(
        agreement,
        where=settings.models[arguments.model],
        methods=settings.methods,
        datasets=settings.datasets,
    )
    write(table, arguments.csv, arguments.tex, arguments.html)


if __name__ == "__main__":
    run(main, parser())
