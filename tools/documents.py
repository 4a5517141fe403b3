"""Writing documents of the repository, as a whole or between two markers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from pisoft.errors import BenchmarkError

MARKERS = "<!-- written by `make {}`: begin -->", "<!-- written by `make {}`: end -->"
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=jinja2.select_autoescape(["html.jinja"]),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def render(template: str, **values: Any) -> str:
    """Render a template of `templates/`; HTML escapes the markup of values."""
    return _TEMPLATES.get_template(template).render(**values)


def put_between_markers(document: str, text: str, name: str, target: str = "readme") -> str:
    """Replace the text between the two markers of a document.

    The markers are :data:`MARKERS` of the target of `make`, each on its own line; `name` is the
    document's name in the error message.

    Raises:
        BenchmarkError: a marker is missing, repeated, or in the wrong place.
    """
    lines = document.splitlines()
    begin, end = (marker.format(target) for marker in MARKERS)
    if [line for line in lines if line in (begin, end)] != [begin, end]:
        raise BenchmarkError(f"{name}: needs one line '{begin}' and, below it, one line '{end}'")
    head, tail = lines[: lines.index(begin) + 1], lines[lines.index(end) :]
    return "\n".join([*head, text, *tail, ""])
