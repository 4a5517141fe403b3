"""The page of the docs that sets every setting of `config/paper.yaml` beside the paper."""

from __future__ import annotations

from pisoft.config.jobs.pages import PublishedJob
from pisoft.config.reference import markdown_table
from pisoft.formatting import NOTHING
from pisoft.statistics.published_settings import as_text, compared_settings

PAGE = "docs/reference/paper-settings.md"
_INTRODUCTION = """\
# Settings of the paper

*Written by `make schema` from `config/paper.yaml` and
`scripts/pisoft/statistics/published_settings.py`.*

Every setting that can change a number of the paper: its value in `config/paper.yaml`, the paper's,
and where the paper states it. Where the paper leaves a setting open,
[What the paper leaves open](../explanation/what-the-paper-leaves-open.md) has the alternatives. The
page "Against the paper" of a run with one of the paper's models lists its settings in the same way,
and compares no number that a different setting decides.
"""


def paper_settings_page(job: PublishedJob) -> str:
    """Return the page as Markdown, from the settings of `config/paper.yaml`."""
    rows = [
        (
            f"`{one.key}`",
            as_text(one.here),
            as_text(one.setting.paper) if one.setting.where else NOTHING,
            one.verdict,
            one.setting.where or NOTHING,
        )
        for one in compared_settings(job)
    ]
    table = markdown_table(("setting", "`paper.yaml`", "paper", "verdict", "where"), rows)
    return f"{_INTRODUCTION}\n{table}"
