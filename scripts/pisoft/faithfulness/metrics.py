"""Soft-NS and Soft-NC of steps, from the distances of their draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pisoft.config.base import Clamp

Values = np.ndarray | float | Sequence[float]


def soft_ns(h0: Values, distances: Values, clamp: Clamp) -> np.ndarray:
    """Return Soft-NS = max(0, H₀ − H) / H₀, mean over a step's draws, (...) (paper Eq. 4).

    Read literally, the equation clamps every draw (`draw`); the expected value then does not depend
    on the number of draws. Clamping the mean (`mean`) gives lower values, the more so the more
    draws there are. Without a clamp (`none`), poor scores are negative.

    Args:
        h0: distance of the zero baseline, above 0, (...).
        distances: distances of the draws, (..., K).
    """
    h0, distances = np.asarray(h0, dtype=np.float64), np.asarray(distances, dtype=np.float64)
    if clamp == "draw":
        return np.maximum(h0[..., None] - distances, 0.0).mean(axis=-1) / h0
    mean = (h0 - distances.mean(axis=-1)) / h0
    return np.maximum(mean, 0.0) if clamp == "mean" else mean


def soft_nc(h0: Values, distances: Values) -> np.ndarray:
    """Return Soft-NC = H / H₀, mean over a step's draws (paper Eq. 5); shapes as above."""
    return np.mean(distances, axis=-1, dtype=np.float64) / np.asarray(h0, dtype=np.float64)
