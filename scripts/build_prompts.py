"""Tokenise the prompts of a model and a dataset, with masks of what came from the record."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.config.jobs import PromptJob
from pisoft.models.repository import at_commit
from pisoft.models.tokenizer import load_tokenizer, model_context
from pisoft.prompts.build import build_prompts
from pisoft.store.parquet import provenance, read_rows, write_rows
from pisoft.workflow.commandline import run


def main(arguments: argparse.Namespace) -> None:
    """Read samples and write their prompts in the same order."""
    settings = PromptJob.model_validate_json(arguments.settings)
    samples = read_rows(arguments.samples, "samples")
    named = at_commit(settings.model, arguments.model_commit)
    tokenizer = load_tokenizer(named, arguments.model_folder)
    context = model_context(named, arguments.model_folder)
    rows = build_prompts(samples, settings, tokenizer, context)
    origin = provenance(settings.model_dump(mode="json"), {"samples": arguments.samples})
    write_rows(arguments.output, "prompts", rows, origin)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="PromptJob as JSON")
    parser.add_argument("--samples", required=True, type=Path)
    parser.add_argument("--model-folder", type=Path, help="local model; else from the hub")
    parser.add_argument("--model-commit", type=Path, help="record of its commit on the hub")
    parser.add_argument("--output", required=True, type=Path)
    return parser


if __name__ == "__main__":
    run(main, parser())
