"""Write one table as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.analysis.summary import load_rows, present
from pisoft.analysis.table_writer import write
from pisoft.analysis.tables import Table, accuracy_table, auc_table, original_table
from pisoft.analysis.timings import timings_table
from pisoft.commandline import run
from pisoft.errors import BenchmarkError
from pisoft.settings import DisplaySlice, SoftDisplaySlice, TimingsSlice

NEEDS = {
    "auc": ("samples", "curves", "protocol", "model"),
    "original": ("samples", "protocol", "model"),
    "accuracy": ("accuracy",),
    "timings": ("timings",),
}
SLICES: dict[str, type[DisplaySlice]] = {
    "auc": SoftDisplaySlice,
    "original": SoftDisplaySlice,
    "accuracy": DisplaySlice,
    "timings": TimingsSlice,
}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="the kind's display slice as JSON")
    line.add_argument("--kind", required=True, choices=list(NEEDS))
    line.add_argument("--samples", type=Path, help="soft_samples file (auc, original)")
    line.add_argument("--curves", type=Path, help="soft_curves file, for its π grid (auc)")
    line.add_argument("--accuracy", type=Path, help="accuracy file (accuracy)")
    line.add_argument("--timings", type=Path, help="timings file (timings)")
    line.add_argument("--protocol", help="auc, original")
    line.add_argument("--model", help="auc, original")
    for kind in ("csv", "tex", "html"):
        line.add_argument(f"--{kind}", required=True, type=Path)
    return line


def build(arguments: argparse.Namespace, settings: DisplaySlice) -> Table:
    """Build the table of the wanted kind."""
    if arguments.kind == "accuracy":
        rows = load_rows(arguments.accuracy, "accuracy")
        return accuracy_table(rows, models=settings.models, datasets=settings.datasets)
    if isinstance(settings, TimingsSlice):
        return timings_table(load_rows(arguments.timings, "timings"), **dict(settings))
    selection = {"protocol": arguments.protocol, "model": arguments.model}
    samples = load_rows(arguments.samples, "soft_samples", **selection)
    where = f"{settings.models[arguments.model]} · {arguments.protocol} routing"
    assert isinstance(settings, SoftDisplaySlice)
    shown = settings.model_dump(include={"methods", "datasets", "clamp"})
    shown["methods"] = present(settings.methods, samples)
    if arguments.kind == "original":
        return original_table(samples, where=where, **shown)
    grid = sorted(load_rows(arguments.curves, "soft_curves", **selection)["pi"].unique())
    number_type = settings.types[arguments.model]
    return auc_table(samples, grid, where=where, number_type=number_type, **shown)


def main(arguments: argparse.Namespace) -> None:
    """Read a summary file and write the table."""
    missing = [f"--{name}" for name in NEEDS[arguments.kind] if getattr(arguments, name) is None]
    if missing:
        raise BenchmarkError(f"--kind {arguments.kind} needs {', '.join(missing)}")
    settings = SLICES[arguments.kind].model_validate_json(arguments.settings)
    write(build(arguments, settings), arguments.csv, arguments.tex, arguments.html)


if __name__ == "__main__":
    run(main, parser())
