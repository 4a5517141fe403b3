"""Summarise results as Parquet: `summarise_results.py NAME` runs `pisoft/statistics/NAME.py`."""

from __future__ import annotations

import argparse
from typing import get_type_hints

import pyarrow as pa

from pisoft.statistics.reading import Files
from pisoft.statistics.results import summary_table
from pisoft.store.parquet import provenance, write_table
from pisoft.workflow.commandline import job_parser, run, summary_module


def main(arguments: argparse.Namespace) -> None:
    """Compute the summaries and write a file of each kind."""
    module = summary_module(arguments.name)
    expected = get_type_hints(module.summaries)["settings"]
    settings = expected.model_validate_json(arguments.settings)
    summaries = module.summaries(Files(arguments.files), settings)
    tables = {
        kind: summary if isinstance(summary, pa.Table) else summary_table(kind, summary)
        for kind, summary in summaries.items()
    }
    origin = provenance(settings.model_dump(mode="json"))
    for kind, table in tables.items():
        (path,) = arguments.outputs[kind]
        write_table(path, kind, table, origin)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = job_parser(__doc__, "files", "outputs")
    line.add_argument("name", help="which one: the name of its module")
    return line


if __name__ == "__main__":
    run(main, parser())
