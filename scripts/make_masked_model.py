"""Make the masked language model of the demonstration, a unigram model."""

from __future__ import annotations

import argparse
import json

from pisoft.config.jobs.training import MakeMaskedJob
from pisoft.datasets.embedded import make_records
from pisoft.demo.masked_models import make_masked_model
from pisoft.workflow.commandline import job_parser, run

SEED = 1  # added to the evaluation seed, so that no record is shared


def main(arguments: argparse.Namespace) -> None:
    """Count the tokens of every task's synthetic records, and save model and tokenizer."""
    settings = MakeMaskedJob.model_validate_json(arguments.settings)
    source = settings.source
    texts = [
        text
        for task in settings.tasks
        for record in make_records(
            task.generator, source.records, task.evaluation_seed + SEED, task.haystack
        )
        for text in record["fields"].values()
    ]
    make_masked_model(arguments.output_folder, source, texts, json.loads(arguments.settings))


if __name__ == "__main__":
    run(main, job_parser(__doc__, "output-folder"))
