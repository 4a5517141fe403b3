"""Which cases of an expensive test `make test` runs; `make test-all` runs all."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def one_quick(cases: Iterable[Any]) -> list[Any]:
    """Return cases of one parameter, of which all but the first are slow."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.slow) for case in others)]


def each_value_quick(*axes: Iterable[Any]) -> list[Any]:
    """Return all combinations, slow but for as many as hold each value of each axis."""
    values = [list(axis) for axis in axes]
    sizes = [len(axis) for axis in values]
    quick = {tuple(n % size for size in sizes) for n in range(max(sizes))}
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(values, places, strict=True)),
            marks=() if places in quick else pytest.mark.slow,
        )
        for places in product(*map(range, sizes))
    ]
