"""Write README.md's table and figure and the page of real numbers, from the kept summary."""

from __future__ import annotations

import argparse
from pathlib import Path

from keep_summary import CURVES, FOLDER
from pisoft.pages.readme import put_between_markers, result_text
from pisoft.pages.real_numbers import kept, real_numbers_page
from pisoft.workflow.commandline import run

PAGE = Path("docs/explanation/real-numbers.md")
PROTOCOL = "dynamic"
# One or two of each family of methods, all of them in the paper; the best is shown anyway.
SHOWN = (
    "random",
    "attention",
    "input_x_gradient",
    "integrated_gradients",
    "value_zeroing",
    "grad_ellm",
)


def main(arguments: argparse.Namespace) -> None:
    """Write what stands between the markers, and the page."""
    numbers, about = kept(arguments.folder / FOLDER)
    figure = FOLDER / CURVES
    text = result_text(
        numbers.results("statistics", protocol=PROTOCOL),
        model=about.model,
        shown=SHOWN,
        figure=figure.as_posix(),
        page=PAGE.as_posix(),
    )
    readme = arguments.folder / "README.md"
    document = put_between_markers(readme.read_text(encoding="utf-8"), text, str(readme))
    readme.write_text(document, encoding="utf-8")
    page = real_numbers_page(numbers, about, Path("..", figure.relative_to("docs")).as_posix())
    (arguments.folder / PAGE).write_text("\n".join([*page, ""]), encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="where README.md is")
    return parser


if __name__ == "__main__":
    run(main, parser())
