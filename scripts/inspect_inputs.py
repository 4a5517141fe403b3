"""Measure predictions and attention on randomly ablated inputs, for every operator."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.cells import InspectJob
from pisoft.faithfulness.inspection import Inspector
from pisoft.models.device import reset_peak_memory, token_budget
from pisoft.models.loading import evaluation_facts, load_model
from pisoft.models.repository import located
from pisoft.progress import progress
from pisoft.store.cells import read_pairs
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.commandline import MODEL_OPTIONS, job_parser, run

INPUTS = ("prompts", "generations")


def main(arguments: argparse.Namespace) -> None:
    """Inspect the samples one by one."""
    settings = InspectJob.model_validate_json(arguments.settings)
    samples = read_pairs(arguments.prompts, arguments.generations)
    model = load_model(*located(settings.model, arguments.model), arguments.gpus)
    inspector = Inspector(model, settings, token_budget(settings.token_budget, model.device))
    reset_peak_memory(model.device)
    rows = [
        row
        for sample in progress(samples, len(samples), "inspecting", "samples")
        for row in inspector.rows(*sample)
    ]
    facts = evaluation_facts(model, inspector)
    origin = provenance(settings.model_dump(mode="json"), **facts)
    write_rows(arguments.output, "inputs", rows, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, *INPUTS, *MODEL_OPTIONS))
