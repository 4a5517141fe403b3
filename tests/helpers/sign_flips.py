"""Exact sign-flip tests, by enumerating all choices of signs."""

from __future__ import annotations

import itertools

import numpy as np


def step_down(parts: np.ndarray) -> list[float]:
    """Return max-T p-values of column sums, following Westfall and Young's algorithm 2.8."""
    n, count = parts.shape
    flips = list(itertools.product([1, -1], repeat=n))
    sums = [[abs(np.dot(f, parts[:, k])) for k in range(count)] for f in flips]
    observed = [abs(parts[:, k].sum()) for k in range(count)]
    left = sorted(range(count), key=lambda k: -observed[k])
    p_values, before = {}, 0.0
    while left:
        farthest = left[0]
        reached = [max(flipped[k] for k in left) >= observed[farthest] - 1e-12 for flipped in sums]
        before = p_values[farthest] = max(before, float(np.mean(reached)))
        left = left[1:]
    return [p_values[k] for k in range(count)]
