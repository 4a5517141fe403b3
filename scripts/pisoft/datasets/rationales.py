"""Texts stored as lists of words, with the words that annotators marked as evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate, groupby
from typing import Any

from pisoft.config.datasets import Rationale
from pisoft.errors import BenchmarkError

Row = dict[str, Any]


def with_evidence(record: Mapping[str, Any], rationale: Rationale, where: str) -> Row:
    """Return a record with its words joined to a text, and the marked words as `evidence`.

    Raises:
        BenchmarkError: a column is missing or not such a list, or the lists differ in length.
    """
    words, marks = (record.get(column) for column in (rationale.words, rationale.marks))
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BenchmarkError(f"{where}: column '{rationale.words}': expected a list of words")
    if not isinstance(marks, list) or not all(mark in (0, 1) for mark in marks):
        raise BenchmarkError(f"{where}: column '{rationale.marks}': expected a list of 0 and 1")
    if len(words) != len(marks):
        raise BenchmarkError(
            f"{where}: column '{rationale.marks}' marks {len(marks)} words, but column "
            f"'{rationale.words}' has {len(words)}"
        )
    spans = [
        {"field": rationale.words, "start": start, "end": end}
        for start, end in _marked(words, marks)
    ]
    return {**record, rationale.words: " ".join(words), "evidence": spans}


def _marked(words: list[str], marks: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the end-exclusive character range of each run of marked words."""
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    for marked, run in groupby(range(len(words)), key=marks.__getitem__):
        if marked:
            indices = list(run)
            yield starts[indices[0]], starts[indices[-1]] + len(words[indices[-1]])
