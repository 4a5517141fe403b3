"""A page of several tables with text between them, as HTML and as LaTeX."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

from pisoft.tables.layout import Table
from pisoft.tables.writer import render_html, render_latex


@dataclass(frozen=True)
class Figure:
    """A drawing inside a page; `source` is a data URI, so that the page needs no other file."""

    source: str
    description: str

    @classmethod
    def of(cls, svg: Path, description: str) -> Figure:
        """Return an SVG file as a figure."""
        encoded = b64encode(svg.read_bytes()).decode("ascii")
        return cls(f"data:image/svg+xml;base64,{encoded}", description)


@dataclass(frozen=True)
class Bar:
    """A line of a panel: a number as a dot on its interval.

    Attributes:
        label: what it is of.
        text: the number and its interval.
        at, low, high: where they stand, in percent of the panel's width.
        group: `best`, `tied` (not significantly different from the best) or `other`.
        control: whether it is of random scores.
        mark: sign of how it compares with random scores, or nothing.
    """

    label: str
    text: str
    at: float
    low: float
    high: float
    group: str
    control: bool
    mark: str


@dataclass(frozen=True)
class Panel:
    """Numbers as dots below each other, with what they say in a sentence."""

    title: str
    verdict: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Link:
    """A link to a file beside the page.

    Attributes:
        address: the file.
        text: what is to be read of it where it stands.
        name: what it leads to, for who hears it without what stands around it.
    """

    address: str
    text: str
    name: str


@dataclass(frozen=True)
class Claim:
    """A sentence, and the file that supports it if there is one."""

    text: str
    link: Link | None = None


@dataclass(frozen=True)
class Line:
    """Links to files of one kind, those under a common heading together."""

    title: str
    groups: tuple[tuple[str, tuple[Link, ...]], ...]


@dataclass(frozen=True)
class Card:
    """Lines of links under a title."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Section:
    """What stands under a common heading, in the order of the page's template."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    points: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    figure: Figure | None = None
    panels: tuple[Panel, ...] = ()
    cards: tuple[Card, ...] = ()


@dataclass(frozen=True)
class Page:
    """Sections under a title; a warning says what the numbers of this run do not show."""

    title: str
    sections: tuple[Section, ...]
    warning: str = ""


def write_html(page: Page, html: Path) -> None:
    """Write a page as HTML, which needs no other file."""
    html.write_text(render_html("page.html.jinja", page=page), encoding="utf-8")


def write_verdicts(page: Page, text: Path) -> None:
    """Write the warning of a page and the verdicts of its panels as plain text.

    Each is a line; verdicts stand below the heading of their section, apart from others.
    """
    blocks = [page.warning] if page.warning else []
    for section in page.sections:
        if section.panels:
            verdicts = (f"- {panel.title}: {panel.verdict}" for panel in section.panels)
            blocks.append("\n".join((section.heading, *verdicts)))
    text.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def write_latex(page: Page, tex: Path) -> None:
    """Write headings, paragraphs and tables of a page as LaTeX.

    The file is to be read by `\\input` in a document with booktabs; it gives each table a
    page.
    """
    tex.write_text(render_latex("page.tex.jinja", page=page), encoding="utf-8")
