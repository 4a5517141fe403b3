"""Links from the front page to all other results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from pisoft.config.jobs.displays import LabelSettings
from pisoft.pages.groups import ORDER, group_of
from pisoft.pages.page import Card, Link, Section

CardLine = tuple[str, dict[str, list[Link]]]


def links(files: Mapping[str, Sequence[Path]], names: LabelSettings) -> Section:
    """Link to every file: a card for each group, a line for each kind of table, figure or page.

    `files` are by title, `{page}.html` or `{tables|figures}/{name}/…`, below the run's folder.
    """
    cards: dict[str, list[CardLine]] = {group: [] for group in ORDER}
    for title, paths in files.items():
        for _, alike in groupby(paths, key=lambda path: path.parts[0]):
            line = _line(title, list(alike), names)
            name = (*paths[0].with_suffix("").parts[:2],)[-1]
            cards[group_of(name)].append(line)
    filled = tuple(Card(group, tuple(lines)) for group, lines in cards.items() if lines)
    return Section("All results", cards=filled)


def _line(title: str, paths: Sequence[Path], names: LabelSettings) -> CardLine:
    """Return the links to files of one title in one folder, grouped by model."""
    if paths[0].parts[0] not in ("tables", "figures") or paths[0].parts[1] == "published":
        return "", {"": [Link(path.as_posix(), title, title) for path in paths]}
    heading = f"{title} ({paths[0].parts[0].removesuffix('s')})"
    labels = {**names.models, **names.datasets}
    groups: dict[str, list[Link]] = {}
    for path in paths:
        cell = sorted(path.with_suffix("").parts[2:], key=lambda part: part not in names.models)
        *before, last = (labels.get(part, part) for part in cell) if cell else [heading]
        link = Link(path.as_posix(), last, ", ".join(dict.fromkeys((heading, *before, last))))
        groups.setdefault(" ".join(before), []).append(link)
    return heading if cell else "", groups
