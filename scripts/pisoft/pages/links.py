"""Links from the front page to all other results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pisoft.pages.findings import Names
from pisoft.pages.groups import ORDER, group_of
from pisoft.pages.page import Card, Section


def links(files: Mapping[str, Sequence[Path]], names: Names) -> Iterable[Section]:
    """Link to every file, with a card for each title.

    Args:
        files: by title, `{page}.html` or `{tables|figures}/{name}/…`, below the run's folder.
        names: labels of what the parts of a path are.
    """
    labels = {**names.models, **names.datasets}
    cards: dict[str, list[Card]] = {group: [] for group in ORDER}
    for title, paths in files.items():
        card = Card(title, tuple((path.as_posix(), _what(path, labels)) for path in paths))
        cards[group_of(_name(paths[0]))].append(card)
    return (Section(group, cards=tuple(own)) for group, own in cards.items() if own)


def _name(path: Path) -> str:
    """Return the name of a page, or of a table or figure, which is below its room."""
    return path.with_suffix("").parts[: 2 if len(path.parts) > 1 else 1][-1]


def _what(path: Path, labels: Mapping[str, str]) -> str:
    """Say what a file shows: a page, or a table or figure of a protocol, model, dataset."""
    room, name, *cell = (*path.with_suffix("").parts, "")
    if room not in ("tables", "figures") or name == "published":
        return "page"
    return " · ".join([room.removesuffix("s"), *(labels.get(part, part) for part in cell if part)])
