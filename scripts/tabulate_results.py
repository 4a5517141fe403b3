"""Write tables as CSV, LaTeX and HTML: `--show NAME/…` is built by `pisoft/tables/NAME.py`."""

from __future__ import annotations

import argparse
from dataclasses import replace

from pisoft.config.jobs.displays import DisplayJob
from pisoft.store.files import whole_files
from pisoft.tables.writer import EXPLORER, addresses, explorer_links, write
from pisoft.views.view import displayed
from pisoft.workflow.commandline import display_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Build each table from its files and write it."""
    settings = DisplayJob.model_validate_json(arguments.settings)
    displays = displayed("tables", arguments.show, dict(arguments.files), settings)
    for path, described, view, table in displays:
        models = [view.cell["model"]] if "model" in view.cell else settings.models
        outputs = [arguments.folder / f"{path}.{end}" for end in described.endings("tables")]
        pages = addresses(arguments.pages, outputs[-1])
        links: dict[str, dict[str, str]] = {}
        for name in models:
            label = {name: settings.models[name]}
            links |= explorer_links(pages.get(EXPLORER, ""), label, settings.datasets_on(name))
        with whole_files(*outputs) as (csv, tex, html):
            write(replace(table, links=links), csv, tex, html, arguments.warning, pages)


if __name__ == "__main__":
    run(main, display_parser(__doc__, "pages", "warning"))
