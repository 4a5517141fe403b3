"""The page of a figure: caption, files, and data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pisoft.pages.page import Claim, Figure, Link, Page, Section


def figure_page(
    title: str,
    caption: str,
    figure: Path,
    *,
    endings: Sequence[str],
    files: Mapping[str, Sequence[Path]],
    warning: str = "",
    pages: Mapping[str, str],
) -> Page:
    """Build the page of a figure, in the same folder.

    `figure` is its path without suffix; one of the suffixes `endings` is `.svg`. The page shows the
    paragraphs of the reStructuredText caption before the settings. `files` are the figure's inputs
    by kind; `warning` states the limits of this run's numbers.
    """
    paragraphs = caption.replace("*", "").partition("Settings::")[0].split("\n\n")
    made_of = {kind: os.path.commonpath(paths) for kind, paths in files.items() if paths}
    data = {
        f"{kind}, Parquet": os.path.relpath(path, figure.parent) for kind, path in made_of.items()
    }
    drawn = {ending.upper(): f"{figure.name}.{ending}" for ending in endings}
    links = [Link(address, text, text) for text, address in (drawn | data).items()]
    sections = (
        Section("", figure=Figure(f"{figure.name}.svg", title)),
        Section("What it shows", tuple(filter(None, map(str.strip, paragraphs)))),
        Section("Files and data", claims=tuple(Claim("", link) for link in links)),
    )
    return Page(title, sections, warning, pages)
