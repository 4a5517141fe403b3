"""Write a page for each figure: `--show NAME/…` is drawn by `pisoft/figures/NAME.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.config.jobs.displays import FigureJob
from pisoft.pages.figure import figure_page
from pisoft.pages.page import write_html
from pisoft.store.files import whole_files
from pisoft.tables.writer import addresses
from pisoft.views.registry import displays_in, files_of
from pisoft.workflow.commandline import display_parser, run

CAPTIONS = Path(__file__).parents[1] / "rules/captions/figures"


def main(arguments: argparse.Namespace) -> None:
    """Write the pages next to the figures."""
    settings = FigureJob.model_validate_json(arguments.settings)
    for path in arguments.show:
        name, html = path.split("/")[0], arguments.folder / f"{path}.html"
        display, caption = displays_in("figures")[name], CAPTIONS / f"{name}.rst"
        cell = display.cell(path)
        page = figure_page(
            " · ".join(filter(None, (display.title, settings.where(cell), cell.get("part")))),
            caption.read_text(encoding="utf-8") if caption.is_file() else "",
            html.with_suffix(""),
            endings=display.endings("figures"),
            files=files_of(display, dict(arguments.files), cell, settings),
            warning=arguments.warning,
            pages=addresses(arguments.pages, html),
        )
        with whole_files(html) as (written,):
            write_html(page, written)


if __name__ == "__main__":
    run(main, display_parser(__doc__, "pages", "warning"))
