"""A hook of mkdocs: a page with `notebook: true` in its front matter runs, as a notebook does.

Its blocks of Python share one namespace. Below each stands what it prints, and the value of its
last line. A block that fails stops the build.
"""

from __future__ import annotations

import ast
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

SCRIPTS = Path(__file__).parents[1] / "scripts"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.S | re.M)
# Before an image, of tables in pandas' own look, and blank lines, which would end the HTML.
_UNWANTED = re.compile(
    r"\A.*?(?=<svg)|<style scoped>.*?</style>| border=\"1\" class=\"dataframe\"|^\s*\n",
    flags=re.S | re.M,
)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's text with the output below each block."""
    if not page.meta.get("notebook"):
        return markdown
    sys.path.insert(0, str(SCRIPTS))
    names: dict[str, Any] = {}
    try:
        return _BLOCK.sub(lambda block: f"{block[0]}\n\n{_run(block[1], names)}", markdown)
    except Exception as error:
        raise PluginError(f"{page.file.src_uri}: a block of Python fails: {error!r}") from error
    finally:
        sys.path.remove(str(SCRIPTS))


def _run(code: str, names: dict[str, Any]) -> str:
    """Run a block, and return its output as Markdown."""
    lines = ast.parse(code)
    last = lines.body.pop() if isinstance(lines.body[-1], ast.Expr) else None
    value = None
    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()):  # progress
        exec(compile(lines, "<block>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<block>", "eval"), names)
    text = printed.getvalue()
    for kind in ("_repr_svg_", "_repr_html_"):
        if hasattr(value, kind):
            shown = _UNWANTED.sub("", getattr(value, kind)())
            return f'{_block(text)}<div class="output">{shown}</div>'
    return _block(text if value is None else f"{text}{value!r}\n")


def _block(text: str) -> str:
    return f"```text\n{text}```\n\n" if text else ""
