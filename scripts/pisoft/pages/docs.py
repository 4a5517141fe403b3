"""The docs needed to read results, as one page of the run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from markdown import Markdown
from markdown.extensions.toc import TocExtension, slugify
from pymdownx.arithmatex import ArithmatexExtension

from pisoft import __version__
from pisoft.pages.formulas import on_page_content
from pisoft.pages.groups import DOCS
from pisoft.pages.page import Figure
from pisoft.tables.writer import render_html

FOLDER = Path(__file__).parents[3] / "docs"
EXTENSIONS = ("admonition", "fenced_code", "tables")
_LINK = re.compile(r'<a href="([^"#:]*)(?:#([^"]*))?">(.*?)</a>', flags=re.S)
_IMAGE = re.compile(r'<p><img alt="([^"]*)" src="([^"]*)" /></p>')
# What may be wider than a screen scrolls; an empty cell is no heading.
_SCROLLS = '<div class="wide" role="group" tabindex="0" aria-label="{}">'
_REPLACED = {
    "<table>": _SCROLLS.format("Table") + "<table>",
    "</table>": "</table></div>",
    "<div><math": _SCROLLS.format("Formula") + "<math",
    "<th></th>": "<td></td>",
}


def docs_page(pages: Mapping[str, str]) -> str:
    """Return the page as self-contained HTML; `pages` are the links of its bar."""
    sections = {Path(page).stem: section(page, (FOLDER / page).read_text("utf-8")) for page in DOCS}
    return render_html("docs.html.jinja", version=__version__, pages=pages, sections=sections)


def section(page: str, text: str) -> tuple[str, str]:
    """Return a page of the docs as HTML, and the links to its headings."""
    name = Path(page).stem
    headings = TocExtension(
        baselevel=2,
        toc_depth="2-3",
        slugify=lambda heading, separator: f"{name}-{slugify(heading, separator)}",
    )
    formulas = ArithmatexExtension(generic=True)
    markdown = Markdown(extensions=[*EXTENSIONS, headings, formulas])
    html = _LINK.sub(partial(_link, page), markdown.convert(text))
    html = _IMAGE.sub(partial(_image, page), on_page_content(html))
    for tag, replacement in _REPLACED.items():
        html = html.replace(tag, replacement)
    return html, markdown.toc


def _link(page: str, match: re.Match[str]) -> str:
    """Return a link within this page, or the name of a file outside it."""
    address, heading, text = match.groups()
    target = _target(page, address) if address else page
    if target not in DOCS:
        return f"{text} (<code>docs/{target}</code>)"
    return f'<a href="#{"-".join(filter(None, (Path(target).stem, heading)))}">{text}</a>'


def _image(page: str, match: re.Match[str]) -> str:
    description, address = match.groups()
    source = Figure.from_svg(FOLDER / _target(page, address), "").source
    return f'<figure tabindex="0"><img src="{source}" alt="{description}"></figure>'


def _target(page: str, address: str) -> str:
    """Return the path below `docs/` of an address on one of its pages."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), address))
