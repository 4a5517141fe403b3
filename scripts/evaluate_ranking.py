"""Evaluate attributions by insertion and deletion: does the answer flip, or become unlikely?"""

from __future__ import annotations

import argparse
from typing import Any

from pisoft.config.jobs.cells import RankingJob
from pisoft.faithfulness.counterfactuals import replacements_of
from pisoft.faithfulness.ranking import RankingEvaluator, not_applicable_rows
from pisoft.models.batching import blocks
from pisoft.models.device import reset_peak_memory, token_budget
from pisoft.models.loading import evaluation_facts, load_model
from pisoft.models.repository import located
from pisoft.progress import progress
from pisoft.store.cells import read_cell, read_pairs
from pisoft.store.parquet import provenance, write_rows
from pisoft.store.shards import expanded
from pisoft.workflow.commandline import MODEL_OPTIONS, job_parser, run

Row = dict[str, Any]
INPUTS = ("prompts", "generations", "attributions")


def main(arguments: argparse.Namespace) -> None:
    """Evaluate block by block, and write a row per sample and curve in the order of the prompts."""
    settings = RankingJob.model_validate_json(arguments.settings)
    facts: dict[str, Any] = {}
    if settings.not_applicable is None:
        rows, facts = evaluate(arguments, settings)
    else:
        pairs = read_pairs(arguments.prompts, arguments.generations, rows=settings.rows)
        rows = not_applicable_rows([prompt for prompt, _ in pairs], settings.scope)
    origin = provenance(settings.model_dump(mode="json"), **facts)
    write_rows(arguments.output, "ranking", rows, origin)


def evaluate(
    arguments: argparse.Namespace, settings: RankingJob
) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows and their provenance."""
    inputs = arguments.prompts, arguments.generations, arguments.attributions
    samples = read_cell(*inputs, rows=settings.rows)
    model = load_model(*located(settings.model, arguments.model), arguments.gpus)
    budget = token_budget(settings.token_budget, model.device)
    files = [path for pattern in arguments.replacements for path in expanded(pattern)]
    replace, facts = replacements_of(settings, files, model, budget)
    evaluator = RankingEvaluator(
        model, settings.ranking, settings.scope, settings.seed, budget, replace
    )
    reset_peak_memory(model.device)
    rows = []
    chosen = blocks(samples, settings.block_size)
    for block in progress(chosen, sum(map(len, chosen)), "ranking"):
        for prompt, _, _ in block:
            where = f"{arguments.prompts}: sample {prompt['sample_id']}"
            model.check_ids(prompt["input_ids"] + prompt["label_token_ids"], where)
        rows += evaluator.evaluate_block(block)
    return rows, facts | evaluation_facts(model, evaluator)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = job_parser(__doc__, *INPUTS, *MODEL_OPTIONS)
    line.add_argument(
        "--replacements",
        nargs="*",
        default=[],
        help="files of the masked model as in --model, or prompts of all parts of the dataset",
    )
    return line


if __name__ == "__main__":
    run(main, parser())
