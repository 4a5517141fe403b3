"""Summarise per-draw distances as per-sample metrics and curves over π."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices.summaries import SummariseSlice
from pisoft.contracts import provenance, write_table
from pisoft.statistics.soft import summarise


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="SummariseSlice as JSON")
    line.add_argument(
        "--soft",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="…/{protocol}/{model}/{method}/{dataset}.parquet",
    )
    line.add_argument("--samples-output", required=True, type=Path)
    line.add_argument("--curves-output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the soft files, write one file of samples and one of curves."""
    settings = SummariseSlice.model_validate_json(arguments.settings)
    samples, curves = summarise(arguments.soft, settings.minimum_h0, settings.clamp)
    origin = provenance(settings.model_dump(mode="json"))
    write_table(arguments.samples_output, "soft_samples", samples, origin)
    write_table(arguments.curves_output, "soft_curves", curves, origin)


if __name__ == "__main__":
    run(main, parser())
