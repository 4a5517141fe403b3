"""Links from the front page to all other results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from pisoft.config.jobs import LabelSettings
from pisoft.pages.groups import ORDER, group_of
from pisoft.pages.page import Card, Line, Link, Section


def links(files: Mapping[str, Sequence[Path]], names: LabelSettings) -> Section:
    """Link to every file: a card for each group, a line for each kind of table, figure or page.

    Args:
        files: by title, `{page}.html` or `{tables|figures}/{name}/…`, below the run's folder.
        names: labels of what the parts of a path are.
    """
    cards: dict[str, list[Line]] = {group: [] for group in ORDER}
    for title, paths in files.items():
        for _, own in groupby(paths, key=lambda path: path.parts[0]):
            line = _line(title, list(own), names)
            cards[group_of(_name(paths[0]))].append(line)
    return Section(
        "All results",
        cards=tuple(Card(group, tuple(lines)) for group, lines in cards.items() if lines),
    )


def _name(path: Path) -> str:
    """Return the name of a page, or of a table or figure, which is below its room."""
    return path.with_suffix("").parts[: 2 if len(path.parts) > 1 else 1][-1]


def _line(title: str, paths: Sequence[Path], names: LabelSettings) -> Line:
    """Return the links to files of one title in one folder, those of a model together."""
    room, *cell = _parts(paths[0], names)
    if not cell:
        return Line("", (("", tuple(Link(path.as_posix(), title, title) for path in paths)),))
    shown = f"{title} ({room})"
    groups: dict[str, list[Link]] = {}
    for path in paths:
        _, *before, last = _parts(path, names)
        name = ", ".join((shown, *before, last))
        groups.setdefault(" ".join(before), []).append(Link(path.as_posix(), last, name))
    return Line(shown, tuple((heading, tuple(own)) for heading, own in groups.items()))


def _parts(path: Path, names: LabelSettings) -> list[str]:
    """Return what a file is, `table` or other, and what of: model, protocol, dataset and so on."""
    room, name, *cell = (*path.with_suffix("").parts, "")
    if room not in ("tables", "figures") or name == "published":
        return ["page"]
    labels = {**names.models, **names.datasets}
    of_model_first = sorted(filter(None, cell), key=lambda part: part not in names.models)
    return [room.removesuffix("s"), *(labels.get(part, part) for part in of_model_first)]
