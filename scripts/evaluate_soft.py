"""Measure every draw of π-Soft-NC/NS and of the original Soft-NC/NS."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.cells import EvaluateJob
from pisoft.faithfulness.cell import evaluations_of_cell, measure_cell
from pisoft.faithfulness.perturbation import Perturber
from pisoft.models.batching import blocks
from pisoft.models.device import reset_peak_memory, token_budget
from pisoft.models.loading import compile_layers, evaluation_facts, load_model
from pisoft.models.repository import located
from pisoft.store.cells import read_cell
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.commandline import MODEL_OPTIONS, job_parser, run

INPUTS = ("prompts", "generations", "attributions")


def main(arguments: argparse.Namespace) -> None:
    """Read a cell, measure every draw, and write one row per step and retaining probability."""
    settings = EvaluateJob.model_validate_json(arguments.settings)
    evaluation = settings.evaluation
    files = arguments.prompts, arguments.generations, arguments.attributions
    samples = read_cell(*files, settings.target, settings.rows)
    model = load_model(*located(settings.model, arguments.model), arguments.gpus)
    if settings.compile:
        compile_layers(model)
    in_blocks = blocks(samples, settings.block_size)
    steps = evaluations_of_cell(model, in_blocks, evaluation, settings.seed, settings.first_sample)
    budget = token_budget(settings.token_budget, model.device)
    perturber = Perturber(model, budget, settings.protocol, evaluation.operator)
    half = max(1, budget // 2)
    in_float32 = Perturber(model, half, settings.protocol, evaluation.operator)
    reset_peak_memory(model.device)
    first_block = settings.first_sample // settings.block_size
    measure_cell(perturber, in_float32, steps, evaluation.draws, first_block)
    facts = evaluation_facts(model, perturber, in_float32)
    rows = [row for block in steps for step in block for row in step.rows()]
    origin = provenance(settings.model_dump(mode="json"), **facts)
    write_rows(arguments.output, "soft", rows, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, *INPUTS, *MODEL_OPTIONS))
