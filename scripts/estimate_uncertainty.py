"""Estimate the uncertainty of every number of the tables: intervals, ranks, tests, variances."""

from __future__ import annotations

import argparse
import gc
from dataclasses import fields
from pathlib import Path

import pyarrow as pa

from pisoft.commandline import run
from pisoft.config.slices.summaries import UncertaintySlice
from pisoft.contracts import SCHEMAS, provenance, write_table
from pisoft.statistics.uncertainty import Uncertainty, estimate

KINDS = tuple(field.name for field in fields(Uncertainty))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="UncertaintySlice as JSON")
    line.add_argument(
        "--samples",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="soft_samples.parquet and, if there is one, ranking_samples.parquet",
    )
    for kind in KINDS:
        line.add_argument(f"--{kind.replace('_', '-')}-output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the samples, write one file of each kind."""
    settings = UncertaintySlice.model_validate_json(arguments.settings)
    gc.freeze()  # statsmodels searches for garbage at every correction; what is loaded is none
    found = estimate(arguments.samples, settings.datasets, settings.seed, settings.resamples)
    origin = provenance(settings.model_dump(mode="json"))
    for kind in KINDS:
        schema = SCHEMAS[kind]
        rows = getattr(found, kind)[schema.names]
        table = pa.Table.from_pandas(rows, schema=schema, preserve_index=False)
        write_table(getattr(arguments, f"{kind}_output"), kind, table, origin)


if __name__ == "__main__":
    run(main, parser())
