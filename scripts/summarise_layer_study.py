"""Summarise the layer study: AUC of every sample by depth, and the part the sample belongs to."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices.summaries import LayerStudySlice
from pisoft.contracts import provenance, write_table
from pisoft.statistics.layer_study import study_samples


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="LayerStudySlice as JSON")
    line.add_argument(
        "--soft",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="…/{protocol}/{model}/{method}/{dataset}.parquet",
    )
    line.add_argument("--output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the study's soft files and write one file of samples."""
    settings = LayerStudySlice.model_validate_json(arguments.settings)
    samples = study_samples(settings, arguments.soft)
    origin = provenance(settings.model_dump(mode="json"))
    write_table(arguments.output, "layer_study", samples, origin)


if __name__ == "__main__":
    run(main, parser())
