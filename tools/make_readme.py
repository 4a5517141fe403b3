"""Write the table and figure of README.md and the page of real numbers, from kept summaries."""

from __future__ import annotations

import argparse
from pathlib import Path

from documents import put_between_markers
from keep_summary import BOARD, FIGURES, OPERATORS_RUN, PAGE_RUN, README_RUN, STOP_RUN
from pisoft.workflow.commandline import run
from real_numbers import CHANGES, real_numbers_page, result_text
from summary import kept

PAGE = Path("docs/explanation/real-numbers.md")
PROTOCOL = "dynamic"


def main(arguments: argparse.Namespace) -> None:
    """Write the text between the markers, and the page."""
    summary = kept(arguments.folder / BOARD / f"{README_RUN}.json")
    figure = FIGURES / f"{README_RUN}.svg"
    where = {"figure": figure.as_posix(), "page": PAGE.as_posix()}
    text = result_text(summary.numbers, protocol=PROTOCOL, **where)
    readme = arguments.folder / "README.md"
    document = put_between_markers(readme.read_text(encoding="utf-8"), text, str(readme))
    readme.write_text(document, encoding="utf-8")
    changes = arguments.folder / FIGURES / CHANGES
    text = changes.read_text(encoding="utf-8") if changes.is_file() else ""
    linked = Path("..", FIGURES.relative_to("docs"), f"{PAGE_RUN}.svg").as_posix()
    page_numbers = kept(arguments.folder / BOARD / f"{PAGE_RUN}.json")
    operators, stopped = (
        kept(arguments.folder / FIGURES / f"{run}.json") for run in (OPERATORS_RUN, STOP_RUN)
    )
    page = real_numbers_page(page_numbers, linked, text, summary, operators, stopped)
    (arguments.folder / PAGE).write_text(page, encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="where README.md is")
    return parser


if __name__ == "__main__":
    run(main, parser())
