"""Tokenise the prompts of a model and a dataset, with masks of the record's tokens."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.records import PromptJob
from pisoft.models.repository import located
from pisoft.models.tokenizer import load_tokenizer, model_context
from pisoft.prompts.build import build_prompts
from pisoft.store.parquet import provenance, read_rows, write_rows
from pisoft.workflow.commandline import MODEL_OPTIONS, job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read samples and write their prompts in the same order."""
    settings = PromptJob.model_validate_json(arguments.settings)
    samples = read_rows(arguments.samples, "samples")
    source = located(settings.model, arguments.model)
    rows = build_prompts(samples, settings, load_tokenizer(*source), model_context(*source))
    origin = provenance(settings.model_dump(mode="json"))
    write_rows(arguments.output, "prompts", rows, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "samples", *MODEL_OPTIONS))
