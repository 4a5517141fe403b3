"""Write the layer study's table of one model as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import TABLE, display_parser, run
from pisoft.config.slices.display import DisplaySlice
from pisoft.statistics.reading import load_rows
from pisoft.tables.layer_study import layer_study_table
from pisoft.tables.writer import write


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, TABLE, "protocol", "model")
    line.add_argument("--study", required=True, type=Path, help="layer_study file")
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the study's samples and write the table."""
    settings = DisplaySlice.model_validate_json(arguments.settings)
    samples = load_rows(
        arguments.study, "layer_study", protocol=arguments.protocol, model=arguments.model
    )
    where = f"{settings.models[arguments.model]} · {arguments.protocol} routing"
    table = layer_study_table(samples, where=where, datasets=settings.datasets)
    write(table, arguments.csv, arguments.tex, arguments.html)


if __name__ == "__main__":
    run(main, parser())
