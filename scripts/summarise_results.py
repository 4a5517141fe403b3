"""Summarise results as Parquet: `summarise_results.py NAME` is `pisoft/statistics/NAME.py`."""

from __future__ import annotations

import argparse

from pisoft.statistics.reading import Files
from pisoft.store.parquet import provenance, write_rows, write_table
from pisoft.workflow.commandline import files_parser, run, summary_module


def main(arguments: argparse.Namespace) -> None:
    """Compute the summaries and write a file of each kind."""
    module = summary_module(arguments.name)
    settings = module.Settings.model_validate_json(arguments.settings)
    found = module.summaries(Files(arguments.files), settings)
    origin = provenance(settings.model_dump(mode="json"), arguments.files)
    for kind, summary in found.items():
        write = write_rows if isinstance(summary, list) else write_table
        (path,) = arguments.outputs[kind]
        write(path, kind, summary, origin)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = files_parser(__doc__)
    line.add_argument("name", help="which one: the name of its module")
    return line


if __name__ == "__main__":
    run(main, parser())
