"""Links from the front page to all other results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pisoft.pages.findings import Names
from pisoft.pages.page import Card, Section

# Which tables, figures and pages are listed together, by name; others come last.
GROUPS = {
    "Answer": ("pi_soft_auc", "ranks", "pi_curves", "pi_curves_all", "explorer", "published"),
    "Robustness": (
        *("robust_statistics", "variances", "original_soft"),
        *("insertion_deletion", "metric_agreement", "layer_study"),
    ),
    "Diagnostics": ("advantage", "density", "method_agreement", "scores", "tokens", "protocol"),
    "Provenance": ("accuracy", "timings", "cost"),
}
MORE = "More"


def links(files: Mapping[str, Sequence[Path]], names: Names) -> Iterable[Section]:
    """Link to every file, with a card for each title.

    Args:
        files: by title, `{page}.html` or `{tables|figures}/{name}/…`, below the run's folder.
        names: labels of what the parts of a path are.
    """
    labels = {**names.models, **names.datasets}
    cards: dict[str, list[Card]] = {group: [] for group in (*GROUPS, MORE)}
    for title, paths in files.items():
        card = Card(title, tuple((path.as_posix(), _what(path, labels)) for path in paths))
        cards[_group(paths[0])].append(card)
    return (Section(group, cards=tuple(own)) for group, own in cards.items() if own)


def _group(path: Path) -> str:
    name = path.with_suffix("").parts[: 2 if len(path.parts) > 1 else 1][-1]
    return next((group for group, members in GROUPS.items() if name in members), MORE)


def _what(path: Path, labels: Mapping[str, str]) -> str:
    """Say what a file shows: a page, or a table or figure of a protocol, model, dataset."""
    room, name, *cell = (*path.with_suffix("").parts, "")
    if room not in ("tables", "figures") or name == "published":
        return "page"
    return " · ".join([room.removesuffix("s"), *(labels.get(part, part) for part in cell if part)])
