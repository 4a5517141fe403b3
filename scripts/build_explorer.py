"""Write the attribution explorer, one HTML page for the whole run.

Files are the arguments of :func:`pisoft.pages.explorer.explorer_data`.
"""

from __future__ import annotations

import argparse

from pisoft.config.jobs.pages import ExplorerJob
from pisoft.pages.explorer import explorer_data, explorer_page
from pisoft.statistics.reading import Files
from pisoft.store.files import whole_files
from pisoft.tables.writer import addresses
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read the scores of the first samples of every cell and write the page."""
    settings = ExplorerJob.model_validate_json(arguments.settings)
    data = explorer_data(Files(arguments.files), settings)
    (html,) = arguments.outputs["html"]
    page = explorer_page(data, arguments.warning, addresses(arguments.pages, html))
    with whole_files(html) as (path,):
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    run(main, job_parser(__doc__, "files", "outputs", "links", "pages", "warning"))
