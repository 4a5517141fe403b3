"""Evaluate attributions by π-Soft-NC/NS and the original Soft-NC/NS: the distance of every draw."""

from __future__ import annotations

import argparse

from pisoft.commandline import model_job_parser, run
from pisoft.contracts import provenance, read_rows, write_rows
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.soft import PerturbationTarget, evaluate_step, perturbable_positions
from pisoft.lm.loading import load_model, model_facts
from pisoft.progress import progress
from pisoft.settings import EvaluateSlice


def main(arguments: argparse.Namespace) -> None:
    """Evaluate step by step, in the order of the samples."""
    settings = EvaluateSlice.model_validate_json(arguments.settings)
    prompts = read_rows(arguments.prompts, "prompts")[arguments.samples]
    generations = {row["sample_id"]: row for row in read_rows(arguments.generations, "generations")}
    steps: dict[str, list[dict]] = {prompt["sample_id"]: [] for prompt in prompts}
    for row in read_rows(arguments.attributions, "attributions"):
        if row["sample_id"] in steps:
            steps[row["sample_id"]].append(row)
    missing = [sample_id for sample_id, found in steps.items() if not found]
    if missing:
        raise BenchmarkError(f"{arguments.attributions}: no row for sample {missing[0]}")
    model = load_model(settings.model, arguments.model_folder)
    rows = []
    for prompt in progress(prompts, len(prompts), "evaluating"):
        positions = perturbable_positions(prompt, settings.evaluation.scope)
        output = generations[prompt["sample_id"]]["output_ids"]
        for attribution in steps[prompt["sample_id"]]:
            read = [*prompt["input_ids"], *output[: attribution["step"]]]
            model.check_ids(read, f"{arguments.prompts}: sample {prompt['sample_id']}")
            target = PerturbationTarget(read, positions)
            rows += evaluate_step(
                model,
                target,
                attribution,
                settings.evaluation,
                settings.seed,
                settings.token_budget,
                settings.protocol,
            )
    facts = provenance(settings.model_dump(mode="json"), **model_facts(model))
    write_rows(arguments.output, "soft", rows, facts)


if __name__ == "__main__":
    run(main, model_job_parser(__doc__, "prompts", "generations", "attributions"))
