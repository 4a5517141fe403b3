"""Pages of a run, as the report lists them, and what they are made from besides code."""

from __future__ import annotations

from typing import Any

from snakemake.io import report

from pisoft.workflow.displays import TABLE_TEMPLATES

TEMPLATES = "scripts/pisoft/pages/templates"
PAGE_TEMPLATES = (*TABLE_TEMPLATES, f"{TEMPLATES}/page.html.jinja", f"{TEMPLATES}/page.tex.jinja")
EXPLORER_TEMPLATES = tuple(f"{TEMPLATES}/explorer.{end}" for end in ("html.jinja", "css", "js"))


def reported_page(path: str, caption: str, title: str) -> Any:
    """Return the file of a page as the report lists it, before tables and figures.

    Args:
        path: of the file.
        caption: name of a file in `rules/captions/`.
        title: by which it is listed.
    """
    # The report sorts categories by name, so they are numbered.
    labels, file = {"page": title}, f"captions/{caption}.rst"
    return report(path, caption=file, category="1 Overview", labels=labels)
