"""Write README.md's table and figure and the page of real numbers, from the kept summary."""

from __future__ import annotations

import argparse
from pathlib import Path

from keep_summary import CURVES, FOLDER
from pisoft.pages.real_numbers import (
    CHANGES,
    kept,
    put_between_markers,
    real_numbers_page,
    result_text,
)
from pisoft.workflow.commandline import run

PAGE = Path("docs/explanation/real-numbers.md")
PROTOCOL = "dynamic"


def main(arguments: argparse.Namespace) -> None:
    """Write what stands between the markers, and the page."""
    numbers, about = kept(arguments.folder / FOLDER)
    figure = FOLDER / CURVES
    where = {"figure": figure.as_posix(), "page": PAGE.as_posix()}
    text = result_text(numbers, protocol=PROTOCOL, **where)
    readme = arguments.folder / "README.md"
    document = put_between_markers(readme.read_text(encoding="utf-8"), text, str(readme))
    readme.write_text(document, encoding="utf-8")
    changes = arguments.folder / FOLDER / CHANGES
    text = changes.read_text(encoding="utf-8") if changes.is_file() else ""
    linked = Path("..", figure.relative_to("docs")).as_posix()
    page = real_numbers_page(numbers, about, linked, text)
    (arguments.folder / PAGE).write_text(page, encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="where README.md is")
    return parser


if __name__ == "__main__":
    run(main, parser())
