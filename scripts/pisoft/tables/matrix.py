"""Rows of a symmetric matrix of agreement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pisoft.tables.layout import Entry, Row
from pisoft.units import NOTHING, signed


def column_numbers(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the headings of a matrix's columns, too narrow for the labels of its rows."""
    return tuple(str(number) for number in range(1, 1 + len(labels)))


def symmetric_rows(numbers: np.ndarray, labels: Sequence[str]) -> tuple[Row, ...]:
    """Return a symmetric matrix as rows, each numbered like its column, the diagonal empty."""
    return tuple(
        Row(
            f"{line + 1} {label}",
            tuple(
                Entry("" if line == column else _text(value))
                for column, value in enumerate(numbers[line])
            ),
        )
        for line, label in enumerate(labels)
    )


def _text(value: float) -> str:
    """Return a number of at most 1 in size with two digits, without a negative zero: `−.07`."""
    shown = f"{round(value, 2) + 0.0:.2f}".replace("0.", ".")
    return NOTHING if np.isnan(value) else signed(shown)
