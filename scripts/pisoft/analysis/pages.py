"""A page of several tables with text between them, as one HTML file and one LaTeX file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pisoft.analysis.table_writer import render_html, render_latex
from pisoft.analysis.tables import Table


@dataclass(frozen=True)
class Section:
    """Paragraphs and tables under a common heading."""

    heading: str
    paragraphs: tuple[str, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Page:
    """Sections under a title."""

    title: str
    sections: tuple[Section, ...]


def write_page(page: Page, tex: Path, html: Path) -> None:
    """Write a page as HTML, which needs no other file, and as LaTeX.

    The LaTeX file is to be read by `\\input` in a document with booktabs and xcolor; it gives each
    table a page.
    """
    tex.write_text(render_latex("page.tex.jinja", page=page), encoding="utf-8")
    html.write_text(render_html("page.html.jinja", page=page), encoding="utf-8")
