"""Score the prompt's tokens for every explained step of every sample."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.attribution.engine import attribute_block, scores_row, time_row, warm_up
from pisoft.attribution.repetition import compare_with_float32
from pisoft.config.jobs.cells import AttributeJob
from pisoft.models.batching import blocks
from pisoft.models.device import peak_memory, reset_peak_memory, token_budget
from pisoft.models.loading import load_model, load_outline, model_facts
from pisoft.models.masked import load_masked_model
from pisoft.models.randomised import randomise_last_layers
from pisoft.models.repository import located
from pisoft.progress import progress
from pisoft.store.cells import read_pairs
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.commandline import MODEL_OPTIONS, job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read prompts and generations, attribute block by block, and write one row per step."""
    settings = AttributeJob.model_validate_json(arguments.settings)
    files = arguments.prompts, arguments.generations
    pairs = read_pairs(*files, settings.target, settings.rows)
    method_class = load_method(settings.method)
    source = located(settings.model, arguments.model)
    model = (
        load_model(*source, arguments.gpus) if method_class.needs_model else load_outline(*source)
    )
    if settings.reinitialised_layers is not None and method_class.needs_model:
        randomise_last_layers(model, settings.reinitialised_layers, settings.seed)
    masked, facts = None, model_facts(model)
    if settings.masked_model is not None:
        proposing = located(settings.masked_model, arguments.masked_model)
        masked = load_masked_model(*proposing, model.device)
        facts["masked_model_commit"] = masked.commit
    method = method_class(
        method_class.Options.model_validate(settings.options),
        Context(
            seed=settings.seed,
            token_budget=token_budget(settings.token_budget, model.device),
            masked=masked,
            step_scores=settings.step_scores or "own",
            scope=settings.scope or "all",
        ),
    )
    method.check(model)
    chosen = blocks(pairs, settings.block_size)
    reset_peak_memory(model.device)
    warm_up(method, model, pairs)
    rows = []
    for block in progress(chosen, sum(map(len, chosen)), "attributing"):
        rows += attribute_block(method, model, block)
    needed = peak_memory(model.device)
    first_block = settings.first_sample // settings.block_size
    compare_with_float32(method, model, chosen, rows, first_block)
    facts["token_budget_used"] = method.context.token_budget
    origin = provenance(settings.model_dump(mode="json"), **facts)
    write_rows(arguments.output, "attributions", map(scores_row, rows), origin)
    write_rows(arguments.times, "attribution_times", map(time_row, rows), {**origin, **needed})


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = job_parser(__doc__, "prompts", "generations", "times", *MODEL_OPTIONS)
    line.add_argument("--masked-model", type=Path, nargs="*", help="as --model, if it needs one")
    return line


if __name__ == "__main__":
    run(main, parser())
