"""Summarise how well the models solve the datasets, and how long prompts and answers are."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from pisoft.analysis.summary import accuracy_rows
from pisoft.commandline import run
from pisoft.contracts import provenance, write_rows
from pisoft.errors import BenchmarkError


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--models", required=True, nargs="+", metavar="NAME")
    line.add_argument("--datasets", required=True, nargs="+", metavar="NAME")
    for kind in ("prompts", "generations"):
        line.add_argument(
            f"--{kind}",
            required=True,
            nargs="+",
            type=Path,
            metavar="FILE",
            help="…/{model}/{dataset}.parquet, datasets within models",
        )
    line.add_argument("--output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read prompts and generations of every model and dataset, write one row for each pair."""
    pairs = list(itertools.product(arguments.models, arguments.datasets))
    expected = [(model, f"{dataset}.parquet") for model, dataset in pairs]
    for kind in ("prompts", "generations"):
        files: list[Path] = getattr(arguments, kind)
        if [path.parts[-2:] for path in files] != expected:
            raise BenchmarkError(f"--{kind}: expected {expected}, got {[str(p) for p in files]}")
    cells = [
        (*pair, prompts, generations)
        for pair, prompts, generations in zip(
            pairs, arguments.prompts, arguments.generations, strict=True
        )
    ]
    settings = {"models": arguments.models, "datasets": arguments.datasets}
    write_rows(arguments.output, "accuracy", accuracy_rows(cells), provenance(settings))


if __name__ == "__main__":
    run(main, parser())
