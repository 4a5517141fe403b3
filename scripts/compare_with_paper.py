"""Set the published numbers beside the run's, and show what the published order hangs on."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pandas as pd

from pisoft.commandline import run
from pisoft.config.slices import PublishedSlice
from pisoft.files import whole_files
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
from pisoft.views import Results

PUBLISHED = Path(__file__).parents[1] / "config/published.csv"


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--settings", required=True, help="PublishedSlice as JSON")
    line.add_argument("--published", default=PUBLISHED, type=Path, help="published numbers, CSV")
    line.add_argument("--statistics", required=True, type=Path, help="statistics file")
    for name in ("timings", "layer-study"):
        line.add_argument(f"--{name}", nargs="*", default=[], type=Path, help=f"{name} file")
    for name in ("cells", "agreement", "robustness"):
        line.add_argument(f"--{name}", required=True, type=Path, help="CSV to write")
    line.add_argument("--explorer", nargs="?", const="", default="", help="its address, from HTML")
    line.add_argument("--warning", nargs="?", const="", default="", help="what numbers do not show")
    for kind in ("tex", "html"):
        line.add_argument(f"--{kind}", required=True, type=Path)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Read the published numbers and the summary files, and write page and CSV files."""
    settings = PublishedSlice.model_validate_json(arguments.settings)
    published = load_published(arguments.published)
    statistics = [load_rows(arguments.statistics, "statistics")]
    statistics += [leaky_statistics(load_rows(p, "layer_study")) for p in arguments.layer_study]
    cells = compare(
        published,
        pd.concat(statistics, ignore_index=True),
        load_rows(arguments.timings, "timings"),
        other_models=settings.other_models,
        other_datasets=settings.other_datasets,
        unlike=differences(settings),
    )
    agreements, robustness = agreement(cells), published_robustness(published)
    page = against_paper_page(
        published, cells, agreements, robustness, settings, arguments.explorer
    )
    tables = {
        arguments.cells: cells.astype({"n": "Int64", "n_failed": "Int64"}),
        arguments.agreement: agreements,
        arguments.robustness: Results(robustness, {}, {}).values.drop(columns=["n", "n_failed"]),
    }
    files = (arguments.html, arguments.tex, *tables)
    with whole_files(arguments.settings, *files) as (html, tex, *csv):
        write_html(replace(page, warning=arguments.warning), html)
        write_latex(page, tex)
        for path, rows in zip(csv, tables.values(), strict=True):
            rows.to_csv(path, index=False, lineterminator="\n")


if __name__ == "__main__":
    run(main, parser())
