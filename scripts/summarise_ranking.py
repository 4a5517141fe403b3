"""Summarise insertion and deletion: the AUC of both curves of every sample."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices.summaries import SummariseRankingSlice
from pisoft.contracts import provenance, write_table
from pisoft.statistics.insertion_deletion import ranking_samples


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="SummariseRankingSlice as JSON")
    line.add_argument(
        "--ranking",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="…/{model}/{method}/{dataset}.parquet",
    )
    line.add_argument("--output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the ranking files, write one file of samples."""
    settings = SummariseRankingSlice.model_validate_json(arguments.settings)
    samples = ranking_samples(arguments.ranking, settings.not_applicable)
    origin = provenance(settings.model_dump(mode="json"))
    write_table(arguments.output, "ranking_samples", samples, origin)


if __name__ == "__main__":
    run(main, parser())
