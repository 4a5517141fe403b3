"""Read a dataset from the hub, a local file or the embedded generator."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.config.jobs.records import FetchJob
from pisoft.datasets.sources import at_commit, fetch
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read the records and write them in the order of the source."""
    settings = FetchJob.model_validate_json(arguments.settings)
    pinned = at_commit(settings, arguments.commit)
    rows = fetch(pinned)
    facts = {"dataset_commit": getattr(pinned.source, "revision", None)}
    origin = provenance(settings.model_dump(mode="json"), **facts)
    write_rows(arguments.output, "datasets", rows, origin)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = job_parser(__doc__, "output")
    line.add_argument("--commit", type=Path, nargs="?", help="record of its commit on the hub")
    return line


if __name__ == "__main__":
    run(main, parser())
