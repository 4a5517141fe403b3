"""Make a model folder from a GGUF file."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices import DequantiseSlice
from pisoft.lm.gguf import dequantise


def main(arguments: argparse.Namespace) -> None:
    """Read the file, and write its weights and tokenizer."""
    settings = DequantiseSlice.model_validate_json(arguments.settings)
    dequantise(settings.model, arguments.weights, settings.dtype, arguments.output_folder)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, help="DequantiseSlice as JSON")
    parser.add_argument("--weights", required=True, type=Path, help="GGUF file")
    parser.add_argument("--output-folder", required=True, type=Path)
    return parser


if __name__ == "__main__":
    run(main, parser())
