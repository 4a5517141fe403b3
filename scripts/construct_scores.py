"""Make scores from known evidence, or from a method's scores, as those of a method."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.metric_validation import Control
from pisoft.config.slices import ConstructSlice
from pisoft.contracts import provenance, write_rows
from pisoft.faithfulness.controls import control_rows, permuted_rows
from pisoft.relations import read_attributions, read_generations, read_prompts


def main(arguments: argparse.Namespace) -> None:
    """Make the scores of a model and a part of a dataset."""
    settings = ConstructSlice.model_validate_json(arguments.settings)
    source, scope, seed = settings.source, settings.scope, settings.seed
    prompts = read_prompts(arguments.prompts)
    generations = read_generations(arguments.generations, arguments.prompts, prompts)
    inputs = {"prompts": arguments.prompts, "generations": arguments.generations}
    if isinstance(source, Control):
        pairs = zip(prompts, generations, strict=True)
        rows = [row for pair in pairs for row in control_rows(*pair, source, scope, seed)]
    else:
        inputs["attributions"] = arguments.attributions
        given = read_attributions(
            arguments.attributions, arguments.prompts, prompts, arguments.generations, generations
        )
        rows = [
            row
            for prompt in prompts
            for row in permuted_rows(prompt, given[prompt["sample_id"]], source, scope, seed)
        ]
    origin = provenance(settings.model_dump(mode="json"), inputs)
    write_rows(arguments.output, "attributions", rows, origin)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="ConstructSlice as JSON")
    parser.add_argument("--prompts", required=True, type=Path)
    parser.add_argument("--generations", required=True, type=Path)
    parser.add_argument("--attributions", type=Path, help="scores that are permuted")
    parser.add_argument("--output", required=True, type=Path)
    return parser


if __name__ == "__main__":
    run(main, parser())
