"""Write a table of the soft metrics of one model and protocol as CSV, LaTeX and HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import TABLE, display_parser, run
from pisoft.config.slices.display import SoftDisplaySlice
from pisoft.errors import BenchmarkError
from pisoft.statistics.reading import load_rows, present
from pisoft.tables.layout import Table
from pisoft.tables.original_soft import original_table
from pisoft.tables.pi_soft_auc import auc_table
from pisoft.tables.robust_statistics import robust_table
from pisoft.tables.soft import SoftRows
from pisoft.tables.variances import variance_table
from pisoft.tables.writer import write

NEEDS = {
    "auc": ("statistics", "samples", "curves"),
    "robust": ("statistics", "samples"),
    "original": ("statistics", "samples"),
    "variance": ("variances",),
}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = display_parser(__doc__, TABLE, "protocol", "model")
    line.add_argument("--kind", required=True, choices=list(NEEDS))
    for name in ("statistics", "samples", "curves", "variances"):
        line.add_argument(f"--{name}", type=Path, help=f"{name} file, if the kind needs it")
    return line


def build(arguments: argparse.Namespace, settings: SoftDisplaySlice) -> Table:
    """Build the table of the wanted kind."""
    cell = {"protocol": arguments.protocol, "model": arguments.model}
    where = f"{settings.models[arguments.model]} · {arguments.protocol} routing"
    if arguments.kind == "variance":
        variances = load_rows(arguments.variances, "variances", **cell)
        methods = present(settings.methods, variances)
        return variance_table(variances, where=where, methods=methods, datasets=settings.datasets)
    outcomes = load_rows(arguments.samples, "soft_samples", metric="identity", **cell)
    rows = SoftRows(
        statistics=load_rows(arguments.statistics, "statistics", **cell),
        outcomes=outcomes,
        where=where,
        methods=present(settings.methods, outcomes),
        datasets=settings.datasets,
        clamp=settings.clamp,
    )
    if arguments.kind == "robust":
        return robust_table(rows)
    if arguments.kind == "original":
        return original_table(rows)
    grid = sorted(load_rows(arguments.curves, "soft_curves", **cell)["pi"].unique())
    return auc_table(rows, grid, settings.types[arguments.model])


def main(arguments: argparse.Namespace) -> None:
    """Read the summary files and write the table."""
    missing = [f"--{name}" for name in NEEDS[arguments.kind] if getattr(arguments, name) is None]
    if missing:
        raise BenchmarkError(f"--kind {arguments.kind} needs {', '.join(missing)}")
    settings = SoftDisplaySlice.model_validate_json(arguments.settings)
    write(build(arguments, settings), arguments.csv, arguments.tex, arguments.html)


if __name__ == "__main__":
    run(main, parser())
