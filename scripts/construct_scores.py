"""Construct scores from evidence, or permute a method's scores, as scores of a method."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.cells import ConstructJob
from pisoft.config.studies import Control
from pisoft.faithfulness.controls import control_rows, permuted_rows
from pisoft.store.cells import read_cell, read_pairs
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Construct the scores of a model and a part of a dataset."""
    settings = ConstructJob.model_validate_json(arguments.settings)
    source, scope, seed = settings.source, settings.scope, settings.seed
    inputs = {kind: path for kind, (path,) in arguments.files.items()}
    if isinstance(source, Control):
        rows = [
            row
            for pair in read_pairs(**inputs, rows=settings.rows)
            for row in control_rows(*pair, source, scope, seed, settings.step_scores)
        ]
    else:
        rows = [
            row
            for prompt, _, scores in read_cell(**inputs, rows=settings.rows)
            for row in permuted_rows(prompt, scores, source, scope, seed)
        ]
    origin = provenance(settings.model_dump(mode="json"))
    (output,) = arguments.outputs["attributions"]
    write_rows(output, "attributions", rows, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "files", "outputs"))
