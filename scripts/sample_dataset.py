"""Choose the records that are explained, equally many per label."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.records import SampleJob
from pisoft.datasets.sampling import sample
from pisoft.store.parquet import provenance, read_rows, write_rows
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read the records and write those chosen."""
    settings = SampleJob.model_validate_json(arguments.settings)
    records = read_rows(arguments.records, "datasets")
    chosen = settings.samples
    first, last = chosen if isinstance(chosen, tuple) else (0, chosen)
    rows = sample(records, last, settings.seed, first)
    origin = provenance(settings.model_dump(mode="json"))
    write_rows(arguments.output, "samples", rows, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "records", "output"))
