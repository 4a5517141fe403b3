"""Compare the scores of every two methods on one model and dataset."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices.summaries import CompareSlice
from pisoft.contracts import provenance, write_rows
from pisoft.statistics.method_agreement import agreement_rows
from pisoft.statistics.scores import read_scores


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="CompareSlice as JSON")
    line.add_argument("--prompts", required=True, type=Path, help="…/{model}/{dataset}.parquet")
    line.add_argument(
        "--attributions",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="…/{model}/{method}/{dataset}.parquet",
    )
    line.add_argument("--output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the scores of all methods step by step and write one file of agreement."""
    settings = CompareSlice.model_validate_json(arguments.settings)
    steps = read_scores(
        arguments.prompts, arguments.attributions, settings.scope, settings.normalisation
    )
    model, dataset = arguments.prompts.with_suffix("").parts[-2:]
    rows = agreement_rows(model, dataset, settings.methods, steps)
    write_rows(arguments.output, "agreement", rows, provenance(settings.model_dump(mode="json")))


if __name__ == "__main__":
    run(main, parser())
