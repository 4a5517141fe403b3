"""Write the table of the methods' ranks for one model as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import TABLE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.reading import load_rows
from pisoft.tables.ranks import rank_table
from pisoft.tables.writer import write


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, TABLE, "protocol", "model")
    for kind in ("statistics", "leave-one-out"):
        line.add_argument(f"--{kind}", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read one cell's statistics and ranks and write the table."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    cell = {"protocol": arguments.protocol, "model": arguments.model}
    statistics = load_rows(arguments.statistics, "statistics", **cell)
    leave_one_out = load_rows(arguments.leave_one_out, "leave_one_out", **cell)
    where = f"{settings.models[arguments.model]} · {arguments.protocol} routing"
    table = rank_table(
        statistics,
        leave_one_out,
        where=where,
        methods=settings.methods,
        datasets=settings.datasets,
    )
    write(table, arguments.csv, arguments.tex, arguments.html)


if __name__ == "__main__":
    run(main, parser())
