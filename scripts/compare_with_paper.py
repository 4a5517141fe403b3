"""Compare the published numbers with the run's, and test the published order's robustness."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pandas as pd

from pisoft.config.jobs.pages import PublishedJob
from pisoft.pages.against_paper import against_paper_page
from pisoft.pages.page import write_html, write_latex
from pisoft.statistics.against_paper import (
    agreement,
    compare,
    leaky_statistics,
    published_robustness,
)
from pisoft.statistics.published import load_published
from pisoft.statistics.published_settings import differences
from pisoft.statistics.reading import load_rows
from pisoft.store.files import whole_files
from pisoft.tables.writer import EXPLORER, addresses
from pisoft.views.view import Results
from pisoft.workflow.commandline import job_parser, run

PUBLISHED = Path(__file__).parents[1] / "config/published.csv"


def main(arguments: argparse.Namespace) -> None:
    """Read the published numbers and the summary files, and write the page and its CSV files."""
    settings = PublishedJob.model_validate_json(arguments.settings)
    published = load_published(PUBLISHED)
    files, outputs = arguments.files, arguments.outputs
    statistics = [load_rows(files["statistics"], "statistics")]
    statistics += [
        leaky_statistics(load_rows(path, "layer_study")) for path in files.get("layer_study", [])
    ]
    cells = compare(
        published,
        pd.concat(statistics, ignore_index=True),
        load_rows(files.get("timings", []), "timings"),
        other_models=settings.other_models,
        other_datasets=settings.other_datasets,
        unlike=differences(settings),
    )
    agreements, robustness = agreement(cells), published_robustness(published)
    pages = addresses(arguments.pages, *outputs["html"])
    page = against_paper_page(
        published, cells, agreements, robustness, settings, pages.get(EXPLORER, "")
    )
    tables = {
        "cells": cells.astype({"n": "Int64", "n_failed": "Int64"}),
        "agreement": agreements,
        "robustness": Results(robustness, {}, {}).values.drop(columns=["n", "n_failed"]),
    }
    paths = [path for kind in ("html", "tex", *tables) for path in outputs[kind]]
    with whole_files(*paths) as (html, tex, *csv):
        write_html(replace(page, warning=arguments.warning, pages=pages), html)
        write_latex(page, tex)
        for path, rows in zip(csv, tables.values(), strict=True):
            rows.to_csv(path, index=False, lineterminator="\n")


if __name__ == "__main__":
    run(main, job_parser(__doc__, "files", "outputs", "links", "pages", "warning"))
