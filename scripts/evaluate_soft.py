"""Evaluate attributions by π-Soft-NC/NS and the original Soft-NC/NS: what every draw changes."""

from __future__ import annotations

import argparse

from pisoft.config.jobs import EvaluateJob
from pisoft.config.shards import is_repeated
from pisoft.faithfulness.budget import first_draws, further_draws
from pisoft.faithfulness.perturbation import Perturber
from pisoft.faithfulness.soft import evaluations_of_sample, measure_draws, measure_in_float32
from pisoft.models.batching import blocks
from pisoft.models.device import reset_peak_memory, token_budget
from pisoft.models.loading import compile_layers, evaluation_facts, load_model
from pisoft.models.repository import located
from pisoft.progress import progress
from pisoft.store.cells import read_cell
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.commandline import OF_MODEL, job_parser, run

INPUTS = ("prompts", "generations", "attributions")


def main(arguments: argparse.Namespace) -> None:
    """Evaluate block by block, again for as long as a budget of draws asks for more."""
    settings = EvaluateJob.model_validate_json(arguments.settings)
    evaluation = settings.evaluation
    prompts, answers, attributions = read_cell(
        arguments.prompts, arguments.generations, arguments.attributions
    )
    generations = {row["sample_id"]: row for row in answers}
    model = load_model(*located(settings.model, arguments.model), arguments.gpus)
    if settings.compile:
        compile_layers(model)
    steps = [
        [
            step
            for prompt in block
            for step in evaluations_of_sample(
                model,
                prompt,
                generations[prompt["sample_id"]],
                attributions[prompt["sample_id"]],
                evaluation,
                settings.seed,
            )
        ]
        for block in blocks(prompts, settings.block_size)
    ]
    budget = token_budget(settings.token_budget, model.device)
    perturber = Perturber(model, budget, settings.protocol, evaluation.operator)
    reset_peak_memory(model.device)
    draws = first_draws(evaluation.draws)
    while any(draws.values()):
        for block in progress(steps, sum(map(len, steps)), "evaluating", "steps"):
            measure_draws(perturber, block, draws)
        draws = further_draws(evaluation.draws, [step for block in steps for step in block], draws)
    half = max(1, budget // 2)
    in_float32 = Perturber(model, half, settings.protocol, evaluation.operator)
    for number, block in enumerate(steps, settings.first_place // settings.block_size):
        if model.is_half_precision and is_repeated(number):
            measure_in_float32(in_float32, block)
    facts = evaluation_facts(model, perturber, in_float32)
    rows = [row for block in steps for step in block for row in step.rows()]
    origin = provenance(settings.model_dump(mode="json"), **facts)
    write_rows(arguments.output, "soft", rows, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, *INPUTS, *OF_MODEL))
