"""Choose the records to explain, equally many per label."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.records import SampleJob
from pisoft.datasets.sampling import sample
from pisoft.datasets.sources import fetch
from pisoft.store.parquet import provenance, read_rows, write_rows
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read the records and write those chosen."""
    settings = SampleJob.model_validate_json(arguments.settings)
    fetched, *_ = arguments.records
    records = fetch(settings.local) if settings.local else read_rows(fetched, "datasets")
    rows = sample(records, settings.count, settings.seed, settings.first)
    origin = provenance(settings.model_dump(mode="json"))
    write_rows(arguments.output, "samples", rows, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "records", "output"))
