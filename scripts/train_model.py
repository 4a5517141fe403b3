"""Train a tiny model of the embedded default; fails below the required held-out accuracy.

With shuffled labels, no accuracy is required.
"""

from __future__ import annotations

import argparse
import json

from pisoft.config.jobs.training import TrainingTask, TrainJob
from pisoft.datasets.embedded import make_records
from pisoft.demo.models import train_tiny_model
from pisoft.demo.shuffled import shuffle_answers
from pisoft.demo.tokenizers import Dialogue
from pisoft.workflow.commandline import job_parser, run

TRAINING_SEED, HELD_OUT_SEED = 1, 2  # added to the evaluation seed, so that no record is shared


def main(arguments: argparse.Namespace) -> None:
    """Make the dialogues of every task, train, and save model and tokenizer."""
    settings = TrainJob.model_validate_json(arguments.settings)
    source = settings.source
    training = dialogues(settings.tasks, source.training_records, TRAINING_SEED)
    if settings.shuffled_labels:
        training = shuffle_answers(training, source.seed)
        source = source.model_copy(update={"required_accuracy": 0.0})
    held_out = dialogues(settings.tasks, source.held_out_records, HELD_OUT_SEED)
    report = json.loads(arguments.settings)
    train_tiny_model(arguments.output_folder, source, training, held_out, report)


def dialogues(tasks: tuple[TrainingTask, ...], count: int, seed: int) -> list[Dialogue]:
    """Return prompts and answers of every task's synthetic records."""
    return [
        Dialogue(
            messages=[
                {"role": message.role, "content": message.content.format(**record["fields"])}
                for message in task.messages
            ],
            answer=task.labels.words[record["label"]] if task.labels else record["answer"],
            group=task.dataset,
        )
        for task in tasks
        for record in make_records(
            task.generator, count, task.evaluation_seed + seed, task.haystack
        )
    ]


if __name__ == "__main__":
    run(main, job_parser(__doc__, "output-folder"))
