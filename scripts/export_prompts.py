"""Write what a run explains, one row for each step, for scores that are made elsewhere."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import add_files, run
from pisoft.config.slices import RunSlice
from pisoft.contracts import provenance, write_rows
from pisoft.given_scores import rows_to_score
from pisoft.relations import read_generations, read_prompts


def main(arguments: argparse.Namespace) -> None:
    """Read the prompts and answers of each model and dataset, and write one file."""
    settings = RunSlice.model_validate_json(arguments.settings)
    rows = []
    files = (arguments.files["prompts"], arguments.files["generations"])
    for asked, answered in zip(*files, strict=True):
        prompts = read_prompts(asked)
        generations = read_generations(answered, asked, prompts)
        model, dataset = asked.with_suffix("").parts[-2:]
        rows += rows_to_score(model, dataset, prompts, generations)
    origin = provenance(settings.model_dump(mode="json"), arguments.files)
    write_rows(arguments.output, "to_score", rows, origin)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="RunSlice as JSON")
    add_files(parser, "--files")
    parser.add_argument("--output", required=True, type=Path)
    return parser


if __name__ == "__main__":
    run(main, parser())
