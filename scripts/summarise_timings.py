"""Summarise how long attribution took and how much memory it needed."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from pisoft.analysis.timings import timing_rows
from pisoft.commandline import run
from pisoft.contracts import provenance, write_rows
from pisoft.errors import BenchmarkError


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    for names in ("models", "methods", "datasets"):
        line.add_argument(f"--{names}", required=True, nargs="+", metavar="NAME")
    line.add_argument(
        "--attributions",
        required=True,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="…/{model}/{method}/{dataset}.parquet, datasets within methods within models",
    )
    line.add_argument("--output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the attributions of every cell, write one row for each."""
    names = list(itertools.product(arguments.models, arguments.methods, arguments.datasets))
    files: list[Path] = arguments.attributions
    expected = [(model, method, f"{dataset}.parquet") for model, method, dataset in names]
    if [path.parts[-3:] for path in files] != expected:
        raise BenchmarkError(f"--attributions: expected {expected}, got {[str(p) for p in files]}")
    cells = [(*name, path) for name, path in zip(names, files, strict=True)]
    settings = {name: getattr(arguments, name) for name in ("models", "methods", "datasets")}
    write_rows(arguments.output, "timings", timing_rows(cells), provenance(settings))


if __name__ == "__main__":
    run(main, parser())
