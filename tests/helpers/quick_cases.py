"""Cases of expensive tests that `make test` runs; `make test-all` runs all."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def one_quick(cases: Iterable[Any]) -> list[Any]:
    """Return cases of one parameter; all but the first are marked slow."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.slow) for case in others)]


def each_value_quick(*axes: Iterable[Any]) -> list[Any]:
    """Return all combinations; a few that cover every value of every axis are not slow."""
    values = [list(axis) for axis in axes]
    sizes = [len(axis) for axis in values]
    quick = {tuple(n % size for size in sizes) for n in range(max(sizes))}
    return [
        pytest.param(
            *(axis[index] for axis, index in zip(values, indices, strict=True)),
            marks=() if indices in quick else pytest.mark.slow,
        )
        for indices in product(*map(range, sizes))
    ]
