"""Keep the figures and the number that "How to read these numbers" shows of finished runs."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

import pandas as pd

from documents import put_between_markers
from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import METRICS
from pisoft.tables.grid import interval_text
from pisoft.workflow.commandline import run

PAGE = Path("docs/explanation/pitfalls.md")
FOLDER = Path("docs/assets/how-to-read")
SHOWN = re.compile(rf"!\[[^\]]+\]\(\.\./{FOLDER.relative_to('docs').as_posix()}/([\w/.-]+\.svg)\)")

VALIDATION = "metric_validation/demo-llama.csv"  # a table
COMPARED = ("auc_pi_soft_ns", "soft_ns")


def main(arguments: argparse.Namespace) -> None:
    """Copy files shown on the page from the first run that has them; delete all others."""
    page = PAGE.read_text(encoding="utf-8")
    figures = [folder / "figures" for folder in arguments.runs]
    drawn = {FOLDER / name: first_of(name, figures) for name in SHOWN.findall(page)}
    table = first_of(VALIDATION, [folder / "tables" for folder in arguments.runs])
    text = put_between_markers(page, preferred_text(table), str(PAGE), "docs-figures")
    PAGE.write_text(text, encoding="utf-8")
    shutil.rmtree(FOLDER, ignore_errors=True)
    for kept, figure in drawn.items():
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(figure, kept)


def first_of(name: str, folders: list[Path]) -> Path:
    """Return a file of the first folder that has it."""
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    searched = ", ".join(map(str, folders))
    raise BenchmarkError(f"{name}: not found in {searched}; the runs have to be finished")


def preferred_text(table: Path) -> str:
    """Describe how often metrics prefer the evidence to its noisy version."""
    rows = pd.read_csv(table).query("part == 'oracle_over_noisy'").set_index("metric")
    parts = [
        f"{METRICS[row.Index].label} {row.value:.2f} {interval_text(row.low, row.high, 2)}"
        for row in rows.loc[list(COMPARED)].itertuples()
    ]
    return f"*{', '.join(parts)} (n = {rows['n'].max()}; chance is 0.5).*"


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="folders of the runs")
    return parser


if __name__ == "__main__":
    run(main, parser())
