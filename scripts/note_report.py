"""Write a placeholder for the report, which is missing or older than a result."""

from __future__ import annotations

import argparse

from pisoft.config.jobs.pages import IndexJob
from pisoft.pages.page import Page, Section, write_html
from pisoft.store.files import whole_files
from pisoft.tables.writer import addresses
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Write a page with the command that makes the report."""
    settings = IndexJob.model_validate_json(arguments.settings)
    (html,) = arguments.outputs["html"]
    how = (
        "Results were computed after the last report was built, or none has been built. Run this "
        f"command with the run file: snakemake --configfile RUN_FILE --report {html}"
    )
    page = Page(
        f"π-Soft Bench · {settings.run}",
        (Section("No report of these results yet", (how,)),),
        pages=addresses(arguments.pages, html),
        warning=arguments.warning,
    )
    with whole_files(html) as (written,):
        write_html(page, written)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "files", "outputs", "links", "pages", "warning"))
