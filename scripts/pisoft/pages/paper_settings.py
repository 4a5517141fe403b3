"""The page of the docs that sets every setting of `config/paper.yaml` beside the paper."""

from __future__ import annotations

from pisoft.config.jobs.pages import PublishedJob
from pisoft.config.reference import markdown_table
from pisoft.formatting import NOTHING
from pisoft.statistics.published_settings import as_text, compared_settings
from pisoft.tables.writer import render_markdown

PAGE = "docs/reference/paper-settings.md"


def paper_settings_page(job: PublishedJob) -> str:
    """Return the page as Markdown, from the settings of `config/paper.yaml`."""
    rows = []
    for one in compared_settings(job):
        where = one.setting.where or NOTHING
        paper = as_text(one.setting.paper) if one.setting.where else NOTHING
        rows.append((f"`{one.key}`", as_text(one.here), paper, one.verdict, where))
    table = markdown_table(("setting", "`paper.yaml`", "paper", "verdict", "where"), rows)
    return render_markdown("paper_settings.md.jinja", table=table)
