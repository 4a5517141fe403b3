"""Write the front page of a run: findings in words, main figure and table, failures, costs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.slices.pages import IndexSlice
from pisoft.contracts import read_provenance
from pisoft.files import whole_files
from pisoft.pages.index import Findings, Names, facts_of, index_page
from pisoft.pages.page import Figure, write_html
from pisoft.statistics.reading import load_rows, present
from pisoft.tables.pi_soft_auc import auc_table
from pisoft.tables.soft import SoftRows

SUMMARIES = ("statistics", "comparisons", "leave_one_out", "cost")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="IndexSlice as JSON")
    for kind in SUMMARIES:
        line.add_argument(f"--{kind.replace('_', '-')}", required=True, type=Path)
    line.add_argument("--samples", required=True, nargs="+", type=Path, help="soft_samples")
    line.add_argument("--curves", required=True, type=Path, help="soft_curves file, for its grid")
    line.add_argument(
        "--figure", required=True, type=Path, help="main figure, …/{protocol}/{model}/{dataset}.svg"
    )
    line.add_argument(
        "--generations", required=True, nargs="+", type=Path, help="…/{model}/{dataset}.parquet"
    )
    line.add_argument("--links", nargs="+", default=[], help="other results of the run")
    line.add_argument("--output", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the summaries and write the page; its table is of the figure's protocol and model."""
    settings = IndexSlice.model_validate_json(arguments.settings)
    found = Findings(
        outcomes=load_rows(arguments.samples, "soft_samples", metric="identity"),
        **{kind: load_rows(getattr(arguments, kind), kind) for kind in SUMMARIES},
    )
    protocol, model, dataset = arguments.figure.with_suffix("").parts[-3:]
    where = f"{settings.models[model]} · {protocol} routing"
    cell = {"protocol": protocol, "model": model}
    statistics, outcomes = (
        rows[(rows["protocol"] == protocol) & (rows["model"] == model)]
        for rows in (found.statistics, found.outcomes)
    )
    rows = SoftRows(
        statistics=statistics,
        outcomes=outcomes,
        where=where,
        methods=present(settings.methods, outcomes),
        datasets=settings.datasets,
        clamp=settings.clamp,
    )
    grid = sorted(load_rows(arguments.curves, "soft_curves", **cell)["pi"].unique())
    table = auc_table(rows, grid, settings.types[model])
    description = f"Curves of both metrics over π, {where}, {settings.datasets[dataset]}"
    origins = {settings.models[path.parts[-2]]: path for path in reversed(arguments.generations)}
    page = index_page(
        settings.run,
        found,
        Names(settings.models, settings.datasets, settings.methods),
        table=table,
        figure=Figure.of(arguments.figure, description),
        facts=facts_of({name: read_provenance(path) for name, path in origins.items()}),
        files=arguments.links,
        warning=settings.warning,
    )
    with whole_files(arguments.settings, arguments.output) as (path,):
        write_html(page, path)


if __name__ == "__main__":
    run(main, parser())
