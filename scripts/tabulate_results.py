"""Write one table as CSV, LaTeX and HTML: `tabulate_results.py NAME` is `pisoft/tables/NAME.py`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from pisoft.commandline import room_module, room_parser, run
from pisoft.files import whole_files
from pisoft.statistics.reading import Files
from pisoft.tables.explorer_links import explorer_links
from pisoft.tables.writer import write


def main(arguments: argparse.Namespace) -> None:
    """Build the table from its files and write it."""
    module = room_module("tables", arguments.name, "table")
    settings = module.Settings.model_validate_json(arguments.settings)
    cell = dict(arguments.cell)
    table = module.table(Files(arguments.files), settings, cell)
    shown = [cell["model"]] if "model" in cell else settings.models
    models = {name: settings.models[name] for name in shown}
    links = explorer_links(arguments.explorer, models, settings.datasets)
    files = (arguments.csv, arguments.tex, arguments.html)
    with whole_files(arguments.settings, *files) as (csv, tex, html):
        write(replace(table, links=links), csv, tex, html, arguments.warning)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = room_parser(__doc__)
    for kind in ("csv", "tex", "html"):
        line.add_argument(f"--{kind}", required=True, type=Path)
    line.add_argument("--explorer", nargs="?", const="", default="", help="its address, from HTML")
    line.add_argument("--warning", nargs="?", const="", default="", help="what numbers do not show")
    return line


if __name__ == "__main__":
    run(main, parser())
