"""Train the tiny masked language model; fails below the required held-out accuracy."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices import TrainingTask, TrainMaskedSlice
from pisoft.embedded.masked_models import Prompt, train_tiny_masked_model
from pisoft.embedded.records import make_records

TRAINING_SEED, HELD_OUT_SEED = 1, 2  # added to the evaluation seed, so that no record is shared


def main(arguments: argparse.Namespace) -> None:
    """Make the prompts of every task, train, and save model and tokenizer."""
    settings = TrainMaskedSlice.model_validate_json(arguments.settings)
    source = settings.source
    train_tiny_masked_model(
        arguments.output_folder,
        **source.model_dump(exclude={"kind", "datasets", "training_records", "held_out_records"}),
        training=prompts(settings.tasks, source.training_records, TRAINING_SEED),
        held_out=prompts(settings.tasks, source.held_out_records, HELD_OUT_SEED),
        settings=json.loads(arguments.settings),
    )


def prompts(tasks: tuple[TrainingTask, ...], count: int, seed: int) -> list[Prompt]:
    """Return the prompts of every task's synthetic records, without special tokens.

    Every other one has the names of the roles in it: chat templates in the style of Llama 3 write
    them as words, those in the style of Mistral do not.
    """
    return [
        prompt(task, record["fields"], with_roles=index % 2 == 1)
        for task in tasks
        for index, record in enumerate(
            make_records(task.generator, count, task.evaluation_seed + seed)
        )
    ]


def prompt(task: TrainingTask, fields: dict[str, str], with_roles: bool) -> Prompt:
    """Return the prompt of one record."""
    turns = [(message.role, message.content.format(**fields)) for message in task.messages]
    if with_roles:
        text = "".join(f"{role}\n\n{content}" for role, content in turns) + "assistant\n\n"
    else:
        text = "\n\n".join(content for _, content in turns)
    starts = [(text.index(value), len(value)) for value in fields.values() if value in text]
    return Prompt(text, tuple((start, start + length) for start, length in starts))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="TrainMaskedSlice as JSON")
    parser.add_argument("--output-folder", required=True, type=Path)
    return parser


if __name__ == "__main__":
    run(main, parser())
