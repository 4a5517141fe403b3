"""Make a model folder from a GGUF file."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.training import DequantiseJob
from pisoft.models.gguf import dequantise
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read the file, and write its weights and tokenizer."""
    settings = DequantiseJob.model_validate_json(arguments.settings)
    dequantise(settings.model, arguments.weights, settings.dtype, arguments.output_folder)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "weights", "output-folder"))
