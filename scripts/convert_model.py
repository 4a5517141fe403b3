"""Write a model folder from a GGUF file, or with the 4-bit weights of a hub model."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.training import ConvertJob
from pisoft.models.conversion import dequantise, quantise
from pisoft.models.repository import located
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read the weights, and write them with their tokenizer."""
    model = ConvertJob.model_validate_json(arguments.settings).model
    if model.repository is None:
        (weights,) = arguments.model
        dequantise(model, weights, arguments.output_folder)
    else:
        at_commit, _ = located(model, arguments.model)
        quantise(at_commit, arguments.output_folder, arguments.gpus)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "gpus", "model", "output-folder"))
