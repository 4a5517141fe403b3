"""Tables, figures and pages as lines of text, compared with the stored text."""

from __future__ import annotations

import difflib
import html
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from pisoft.pages.page import Page
from pisoft.tables.grid import Table
from pisoft.tables.writer import render_html

GOLDEN = Path(__file__).parents[1] / "contract/golden"
RENEW = "RENEW_GOLDENS"  # an environment variable
SHOWN_ATTRIBUTE = r'(?:href|aria-label|style|<li class)="([^"]+)"'
COLOUR_BAR = 100  # rows; a colour bar has more, a heat map fewer
MARKS = {"<b>": "*", "</b>": "*", "</th>": " | ", "</td>": " | ", "<small>": " "}


def file(case: str, *place: str) -> Path:
    """Return the path of a result set's golden file."""
    return GOLDEN.joinpath(case.replace(" ", "-"), *place).with_suffix(".txt")


def compare(text: str, golden: Path) -> None:
    """Fail with a diff if a text differs from its golden, after renewing the golden if requested.

    A test fails once even if its golden is renewed, so that someone reads the diff.
    """
    stored = golden.read_text("utf-8") if golden.exists() else ""
    if text == stored:
        return
    if os.environ.get(RENEW):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, "utf-8")
    lines = difflib.unified_diff(
        stored.splitlines(), text.splitlines(), "stored", "drawn", n=1, lineterm=""
    )
    hint = f"{golden.name} differs; if this is right, renew it with {RENEW}=1 and read this:"
    pytest.fail("\n".join([hint, *lines]), pytrace=False)


def table_text(table: Table) -> str:
    """Return a table's HTML as text, with best entries between stars, and its CSV columns."""
    page = render_html("table.html.jinja", table=table, warning="", families=False, pages={})
    return "\n".join([*_shown(page), "", f"CSV: {', '.join(table.values)}", ""])


def page_text(page: Page) -> str:
    """Return a page's HTML as text, with links, ARIA labels and styles."""
    return "\n".join([*_shown(render_html("page.html.jinja", page=page), SHOWN_ATTRIBUTE), ""])


def _shown(page: str, attribute: str = "(?!)") -> list[str]:
    """Return the text lines of an HTML page, with matching attributes in brackets."""
    body = page[page.index("<h1>") : page.index("</main>")]
    for tag, mark in MARKS.items():
        body = body.replace(tag, mark)
    tagless = re.sub(
        r"<[^>]*>",
        lambda tag: "".join(f"[{_short(value)}]" for value in re.findall(attribute, tag[0])),
        body,
    )
    lines = html.unescape(tagless).splitlines()
    return [line.strip(" |") for line in lines if line.strip(" |")]


def _short(text: str) -> str:
    """Round the numbers in a text to 2 decimals."""
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", text)


def figure_text(figure: Figure) -> str:
    """Return a drawn figure's titles, labels, legends and data, one per line."""
    lines = [*map(_text, figure.texts), *map(_legend, figure.legends)]
    for number, panel in enumerate(figure.axes):
        lines += ["", f"panel {number}: {panel.get_title()!r}", *_panel(panel)]
    return "\n".join([*lines, ""])


def _panel(panel: Axes) -> Iterator[str]:
    for axis, limits in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
        ticks = [tick.get_text() for tick in axis.get_ticklabels()] if axis.get_visible() else []
        label = axis.get_label_text()
        yield f"{axis.axis_name}: {label!r}, {axis.get_scale()}, {_numbers(limits)}, {ticks}"
    if legend := panel.get_legend():
        yield _legend(legend)
    for line in panel.lines:
        look = f"{to_hex(line.get_color())} {line.get_linestyle()} {line.get_marker()}"
        yield f"line{_label(line)} {look}: {_numbers(line.get_xydata())}"
    for drawn in panel.collections:
        colours = sorted({to_hex(colour) for colour in drawn.get_facecolor()})[:12]
        data = [drawn.get_offsets(), *(path.vertices for path in drawn.get_paths())]
        values = drawn.get_array()
        data = data if values is None else values if len(values) > COLOUR_BAR else [values]
        shapes = [_numbers(one) for one in data[:8]]
        yield f"{type(drawn).__name__}{_label(drawn)} {colours}: {' '.join(shapes)}"
    for patch in panel.patches:
        corners = _numbers(patch.get_path().transformed(patch.get_patch_transform()).vertices)
        yield f"{type(patch).__name__}{_label(patch)} {to_hex(patch.get_facecolor())}: {corners}"
    for image in panel.images:
        yield f"image: {_numbers(np.ma.filled(image.get_array(), np.nan))}"
    yield from map(_text, panel.texts)


def _text(text: Any) -> str:
    return f"text {_numbers(text.get_position())}: {text.get_text()!r}"


def _legend(legend: Any) -> str:
    bold = {text: "*" * (text.get_fontweight() == "bold") for text in legend.get_texts()}
    texts = [f"{star}{text.get_text()}{star}" for text, star in bold.items()]
    return f"legend {legend.get_title().get_text()!r}: {texts}"


def _label(artist: Any) -> str:
    """Return an artist's label, unless Matplotlib numbered it."""
    label = artist.get_label()
    return "" if label.startswith("_") else f" {label!r}"


def _numbers(values: Any) -> str:
    """Return numbers rounded to 4 decimals, without negative zeros."""
    numbers = np.round(np.asarray(np.ma.filled(values, np.nan), float), 4) + 0.0
    return str(numbers.tolist()).replace(" ", "")
