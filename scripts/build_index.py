"""Write the front page of a run (leaders, evidence, ranks, links, failures), and its docs.

The files include the main figure, `figure=…/{protocol}/{model}/{dataset}.svg`, answers,
`generations=…/{model}/{dataset}.parquet`, and evaluations,
`soft=…/{model}/{method}/{dataset}.parquet`. Links lead to other results of the run, by title.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from pisoft.config.jobs.pages import IndexJob
from pisoft.pages.docs import docs_page
from pisoft.pages.findings import Numbers
from pisoft.pages.index import EVIDENCE, facts_of, index_page
from pisoft.pages.page import Figure, write_html, write_verdicts
from pisoft.statistics.reading import Files, load_rows
from pisoft.store.files import whole_files
from pisoft.store.parquet import computed_on, made_with, read_provenance
from pisoft.tables.writer import addresses
from pisoft.workflow.commandline import job_parser, run

COMPUTED = ("generations", "attributions", "soft")
SUMMARIES = ("statistics", "comparisons", "ranks", "coverage")


def main(arguments: argparse.Namespace) -> None:
    """Read the summaries and write the page."""
    settings = IndexJob.model_validate_json(arguments.settings)
    files = Files(arguments.files)
    (figure,) = files["figure"]
    protocol, model, dataset = figure.with_suffix("").parts[-3:]
    where = settings.where({"protocol": protocol, "model": model, "dataset": dataset})
    origins = {settings.models[path.parts[-2]]: path for path in reversed(files["generations"])}
    computed = [path for kind in COMPUTED for path in files[kind]]
    provenance = {}
    for name, path in origins.items():
        evaluated = [one for one in files["soft"] if one.parts[-3] == path.parts[-2]]
        provenance[name] = {**read_provenance(path), "device": computed_on(evaluated)}
    page = index_page(
        settings.run,
        Numbers({kind: files.rows(kind) for kind in SUMMARIES}, settings),
        evidence={kind: load_rows(files.get(kind, []), kind) for kind in EVIDENCE},
        figure=Figure.from_svg(figure, f"Curves of both metrics over π, {where}"),
        facts=facts_of(provenance, made_with(computed)),
        files=arguments.links,
        warning=arguments.warning,
    )
    html_file, docs_file, verdicts_file = (
        file for name in ("html", "docs", "verdicts") for file in arguments.outputs[name]
    )
    page = replace(page, pages=addresses(arguments.pages, html_file))
    with whole_files(html_file, docs_file, verdicts_file) as (html, docs, text):
        write_html(page, html)
        docs.write_text(docs_page(addresses(arguments.pages, docs_file)), encoding="utf-8")
        write_verdicts(page, text)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "files", "outputs", "links", "pages", "warning"))
