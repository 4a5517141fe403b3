"""A page of several tables with text between them, as HTML and as LaTeX."""

from __future__ import annotations

import tomllib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pisoft.tables.grid import Table
from pisoft.tables.writer import render_html, render_latex

TEXTS = tomllib.loads((Path(__file__).parent / "templates/texts.toml").read_text("utf-8"))


def text(name: str, **values: Any) -> str:
    """Return a text of `templates/texts.toml`, formatted with values."""
    return " ".join(TEXTS[name].split()).format(**values)


@dataclass(frozen=True)
class Figure:
    """A drawing in a page: a file beside it, or a data URI."""

    source: str
    description: str

    @classmethod
    def from_svg(cls, svg: Path, description: str) -> Figure:
        """Return an SVG file as a figure inside the page."""
        encoded = b64encode(svg.read_bytes()).decode("ascii")
        return cls(f"data:image/svg+xml;base64,{encoded}", description)


@dataclass(frozen=True)
class Standing:
    """A line of a ranking: a method's number as a dot on its interval.

    `at`, `low` and `high` are percentages of the axis. `leads`: best, or not significantly
    different from the best, or equivalent to it; `control`: random scores; `marks` are the signs of
    the tests against both.
    """

    rank: str
    label: str
    text: str
    at: float
    low: float
    high: float
    leads: bool
    control: bool
    marks: str


@dataclass(frozen=True)
class Ranking:
    """Methods by a metric, best first; `ticks` are labels of the axis by percentage."""

    title: str
    verdict: str
    standings: tuple[Standing, ...]
    ticks: Mapping[int, str]


@dataclass(frozen=True)
class Link:
    """A link to a file near the page; `name` describes the target without context."""

    address: str
    text: str
    name: str


@dataclass(frozen=True)
class Claim:
    """A sentence and, if there is one, the file that supports it."""

    text: str
    link: Link | None = None


@dataclass(frozen=True)
class Card:
    """Links under a title: lines with a title and links by common heading."""

    title: str
    lines: tuple[tuple[str, Mapping[str, list[Link]]], ...]


@dataclass(frozen=True)
class Section:
    """The content under a common heading, in the order of the template."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    points: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    figure: Figure | None = None
    rankings: tuple[Ranking, ...] = ()
    cards: tuple[Card, ...] = ()


@dataclass(frozen=True)
class Page:
    """Sections under a title; `warning` states the limits of numbers, `pages` are links."""

    title: str
    sections: tuple[Section, ...]
    warning: str = ""
    pages: Mapping[str, str] = field(default_factory=dict)


def write_html(page: Page, html: Path) -> None:
    """Write a page as self-contained HTML."""
    html.write_text(render_html("page.html.jinja", page=page), encoding="utf-8")


def write_verdicts(page: Page, text: Path) -> None:
    """Write the warning of a page and the verdicts of its rankings as plain text.

    Each is a line; verdicts follow the heading of their section.
    """
    blocks = [page.warning] if page.warning else []
    for section in page.sections:
        if section.rankings:
            verdicts = (f"- {one.title}: {one.verdict}" for one in section.rankings)
            blocks.append("\n".join((section.heading, *verdicts)))
    text.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def write_latex(page: Page, tex: Path) -> None:
    """Write headings, paragraphs and tables of a page as LaTeX, one table a page.

    The file is for `\\input` in a document with booktabs.
    """
    tex.write_text(render_latex("page.tex.jinja", page=page), encoding="utf-8")
