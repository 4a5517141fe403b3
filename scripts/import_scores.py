"""Check scores that were made elsewhere, and write them as those of a method."""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pisoft.columns import SCHEMAS
from pisoft.commandline import run
from pisoft.config.slices import ImportSlice
from pisoft.contracts import provenance, read_table, write_rows
from pisoft.errors import BenchmarkError
from pisoft.given_scores import (
    attribution_rows,
    problems,
    read_scores,
    rows_to_score,
    scores_hash,
)
from pisoft.relations import read_generations, read_prompts


def main(arguments: argparse.Namespace) -> None:
    """Hold the scores of a model and a part of a dataset against prompts and answers."""
    settings = ImportSlice.model_validate_json(arguments.settings)
    prompts = read_prompts(arguments.prompts)
    generations = read_generations(arguments.generations, arguments.prompts, prompts)
    rows = rows_to_score(settings.model, settings.dataset, prompts, generations)
    given = read_scores(arguments.scores, settings.model, settings.dataset)
    # Scores of other parts are for other jobs; those of no part are unknown to all of them.
    whole = read_table(arguments.whole, "prompts", ["sample_id"])["sample_id"]
    others = set(whole.to_pylist()) - {prompt["sample_id"] for prompt in prompts}
    given = given.filter(pc.invert(pc.is_in(given["sample_id"], pa.array(others, pa.string()))))
    if found := problems(given, pa.Table.from_pylist(rows, SCHEMAS["to_score"])):
        more = f"; {len(found) - 1} more: `make check-scores CONFIG=…`" if len(found) > 1 else ""
        where = f"{arguments.scores}: {settings.model} on {settings.dataset}"
        raise BenchmarkError(f"{where}: {found[0]}{more}")
    scores = attribution_rows(given, generations)
    inputs = {"prompts": arguments.prompts, "generations": arguments.generations}
    origin = provenance(settings.model_dump(mode="json"), inputs)
    origin["inputs"]["scores"] = scores_hash(scores)  # what is evaluated says whose scores it had
    write_rows(arguments.output, "attributions", scores, origin)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="ImportSlice as JSON")
    parser.add_argument("--scores", required=True, type=Path, help="the file made elsewhere")
    parser.add_argument("--prompts", required=True, type=Path)
    parser.add_argument("--generations", required=True, type=Path)
    parser.add_argument("--whole", required=True, type=Path, help="prompts of the whole dataset")
    parser.add_argument("--output", required=True, type=Path)
    return parser


if __name__ == "__main__":
    run(main, parser())
