"""A hook of mkdocs: a page with `leaderboard: true` in its front matter ends with the rankings.

They are made from the summaries beside the page, so that a run enters as one file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

FOLDERS = [str(Path(__file__).parents[1] / name) for name in ("scripts", "tools")]


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Return a page's HTML with the leaderboard below its text."""
    if not page.meta.get("leaderboard"):
        return content
    sys.path[:0] = FOLDERS
    from leaderboard import entries, leaderboard
    from pisoft.errors import BenchmarkError

    try:
        return content + leaderboard(entries(Path(page.file.abs_src_path).parent))
    except BenchmarkError as error:
        raise PluginError(str(error)) from error
    finally:
        for folder in FOLDERS:
            sys.path.remove(folder)
