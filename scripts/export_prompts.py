"""Export what a run explains, one row per step, so that scores can be computed elsewhere."""

from __future__ import annotations

import argparse

from pisoft.attribution.external import rows_to_score
from pisoft.config.jobs.cells import ExportJob
from pisoft.store.cells import read_generations, read_prompts
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read the prompts and answers of each model and dataset, and write one file."""
    settings = ExportJob.model_validate_json(arguments.settings)
    rows = []
    files = (arguments.files["prompts"], arguments.files["generations"])
    for prompts_file, answers_file in zip(*files, strict=True):
        prompts = read_prompts(prompts_file)
        generations = read_generations(answers_file, prompts_file, prompts, settings.target)
        model, dataset = prompts_file.with_suffix("").parts[-2:]
        rows += rows_to_score(model, dataset, prompts, generations, settings.target)
    origin = provenance(settings.model_dump(mode="json"))
    (output,) = arguments.outputs["to_score"]
    write_rows(output, "to_score", rows, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "files", "outputs"))
