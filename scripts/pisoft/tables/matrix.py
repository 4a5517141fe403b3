"""Rows of a symmetric matrix of agreement."""

from __future__ import annotations

import numpy as np

from pisoft.tables.layout import Entry, Row
from pisoft.units import NOTHING


def symmetric_rows(numbers: np.ndarray, names: list[str]) -> tuple[Row, ...]:
    """Return a symmetric matrix as rows, the diagonal empty."""
    return tuple(
        Row(
            name,
            tuple(
                Entry("" if line == column else _text(value))
                for column, value in enumerate(numbers[line])
            ),
        )
        for line, name in enumerate(names)
    )


def _text(value: float) -> str:
    """Return a number with two digits, without a negative zero."""
    return NOTHING if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}"
