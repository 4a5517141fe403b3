"""Conversion of TeX between `$` signs to MathML, which needs no script; also a hook of mkdocs.

`pymdownx.arithmatex` marks the formulas.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.S)


def on_page_content(content: str, **_: Any) -> str:
    """Return a page's HTML with its formulas converted."""
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    tag, bracket, formula = match.groups()
    display = "inline" if bracket == "(" else "block"
    return f"<{tag}>{convert(html.unescape(formula.strip()), display=display)}</{tag}>"
