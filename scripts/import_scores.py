"""Check imported scores, and write them as scores of a method."""

from __future__ import annotations

import argparse
import logging

import pyarrow as pa
import pyarrow.compute as pc

from pisoft.attribution.external import (
    attribution_rows,
    problems,
    read_scores,
    rows_to_score,
    scores_hash,
    warnings,
)
from pisoft.config.jobs.cells import ImportJob
from pisoft.errors import BenchmarkError
from pisoft.store.cells import read_generations, read_prompts
from pisoft.store.parquet import provenance, read_table, write_rows
from pisoft.store.schemas import SCHEMAS
from pisoft.workflow.commandline import job_parser, run

logger = logging.getLogger(__name__)


def main(arguments: argparse.Namespace) -> None:
    """Check the scores of a model and a part of a dataset against prompts and answers."""
    settings = ImportJob.model_validate_json(arguments.settings)
    files = arguments.files
    (prompts_file,), (generations_file,) = files["prompts"], files["generations"]
    prompts = read_prompts(prompts_file)
    generations = read_generations(generations_file, prompts_file, prompts, settings.target)
    cell = settings.model, settings.dataset
    rows = rows_to_score(*cell, prompts, generations, settings.target)
    (scores_file,) = files["scores"]
    imported = read_scores(scores_file, settings.model, settings.dataset)
    # Scores of other parts are for other jobs; those of no part are unknown to all of them.
    (whole_file,) = files["whole"]
    whole = read_table(whole_file, "prompts", ["sample_id"])["sample_id"]
    elsewhere = set(whole.to_pylist()) - {prompt["sample_id"] for prompt in prompts}
    imported = imported.filter(
        pc.invert(pc.is_in(imported["sample_id"], pa.array(elsewhere, pa.string())))
    )
    if mistakes := problems(imported, pa.Table.from_pylist(rows, SCHEMAS["to_score"])):
        count = len(mistakes) - 1
        more = f"; {count} more: `make check-scores CONFIG=…`" if count else ""
        where = f"{scores_file}: {settings.model} on {settings.dataset}"
        raise BenchmarkError(f"{where}: {mistakes[0]}{more}")
    for line in warnings(imported):
        logger.warning("%s: %s", scores_file, line)
    scores = attribution_rows(imported, generations)
    origin = provenance(settings.model_dump(mode="json"), scores=scores_hash(scores))
    (output,) = arguments.outputs["attributions"]
    write_rows(output, "attributions", scores, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "files", "outputs"))
