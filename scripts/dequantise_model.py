"""Make a model folder from a GGUF file."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.config.jobs import DequantiseJob
from pisoft.models.gguf import dequantise
from pisoft.workflow.commandline import run


def main(arguments: argparse.Namespace) -> None:
    """Read the file, and write its weights and tokenizer."""
    settings = DequantiseJob.model_validate_json(arguments.settings)
    dequantise(settings.model, arguments.weights, settings.dtype, arguments.output_folder)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="DequantiseJob as JSON")
    parser.add_argument("--weights", required=True, type=Path, help="GGUF file")
    parser.add_argument("--output-folder", required=True, type=Path)
    return parser


if __name__ == "__main__":
    run(main, parser())
