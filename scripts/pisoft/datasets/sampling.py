"""Sampling of the records to explain."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any

from pisoft.errors import BenchmarkError
from pisoft.store.parquet import OK

logger = logging.getLogger(__name__)

Row = dict[str, Any]


def sample(rows: Sequence[Row], count: int | None, seed: int, first: int = 0) -> list[Row]:
    """Sample `count` records at random (None: all), equally many per label.

    Records are ordered by a hash of seed and `sample_id`, and labels take turns. A record's turn
    does not depend on other labels, a larger count extends the sample of a smaller one, and every
    prefix is roughly balanced. A label with too few records contributes all of them, and the other
    labels do not compensate. Failed records are excluded.

    Duplicate texts count once: the first record is kept, with its label and every answer. The
    sample of count `first` is left out.

    Raises:
        BenchmarkError: no record is usable.
    """
    turns = in_turns(rows, seed)
    if count is not None:
        _report_shortage(turns, count)
    return chosen(turns, count, first)


def in_turns(rows: Sequence[Row], seed: int) -> list[Row]:
    """Return all candidates of :func:`sample` in the order of sampling.

    Raises:
        BenchmarkError: no record is usable.
    """
    candidates = _distinct([row for row in rows if row["status"] == OK])
    failed = Counter(row["status"] for row in rows if row["status"] != OK)
    if failed:
        logger.info("not sampled: %s", ", ".join(f"{n} {status}" for status, n in failed.items()))
    if not candidates:
        raise BenchmarkError(f"no usable record among {len(rows)}: {dict(failed)}")
    by_label: dict[str | None, list[Row]] = {}
    for row in sorted(candidates, key=lambda row: _sort_key(row, seed)):
        by_label.setdefault(row["label"], []).append(row)
    turns = sorted(
        ((rank, _sort_key(row, seed), row) for group in by_label.values()
         for rank, row in enumerate(group)),
        key=lambda turn: turn[:2],
    )  # fmt: skip
    return [row for _, _, row in turns]


def chosen(turns: Sequence[Row], count: int | None, first: int = 0) -> list[Row]:
    """Return the sample from candidates in the order of :func:`in_turns`."""
    sizes = Counter(row["label"] for row in turns).values()
    return [*turns[_chosen(sizes, first) : _chosen(sizes, count)]]


def _chosen(sizes: Collection[int], count: int | None) -> int:
    """Return the number of candidates that a count takes: in full turns, and a remainder."""
    if count is None:
        return sum(sizes)
    full_turns, remainder = divmod(count, len(sizes))
    unexhausted = sum(size > full_turns for size in sizes)  # labels
    return sum(min(size, full_turns) for size in sizes) + min(remainder, unexhausted)


def _distinct(rows: Sequence[Row]) -> list[Row]:
    """Return the first of the rows with equal texts, with the answers of all of them."""
    by_texts: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        by_texts.setdefault(tuple(sorted(row["fields"].items())), []).append(row)
    groups = by_texts.values()
    if len(groups) < len(rows):
        logger.info(
            "not sampled: %d that repeat an earlier record's texts; %d texts have several labels",
            len(rows) - len(groups),
            sum(len({row["label"] for row in group}) > 1 for group in groups),
        )
    return [group[0] if len(group) == 1 else _with_answers(group) for group in groups]


def _with_answers(group: Sequence[Row]) -> Row:
    """Return the first row with the distinct answers of all rows, one per line."""
    answers = dict.fromkeys(row["answer"] for row in group if row["answer"] is not None)
    return {**group[0], "answer": "\n".join(answers) if answers else None}


def _sort_key(row: Row, seed: int) -> tuple[bytes, str]:
    """Return the keyed hash of a record, and its id to break ties."""
    digest = blake2b(row["sample_id"].encode(), key=str(seed).encode(), digest_size=16).digest()
    return digest, row["sample_id"]


def _report_shortage(turns: Sequence[Row], count: int) -> None:
    sizes = Counter(row["label"] for row in turns)
    per_label = count // len(sizes)
    for label, size in sizes.items():
        if size < per_label:
            name = f"label '{label}'" if label is not None else "the dataset"
            logger.warning("%s has %d records, fewer than %d of %d", name, size, per_label, count)
