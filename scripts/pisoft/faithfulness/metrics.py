"""The metrics of one step, from the distances of its draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def soft_metrics(
    h0: float, ns_distances: Sequence[float], nc_distances: Sequence[float]
) -> tuple[float, float]:
    """Return Soft-NS = max(0, H₀ − mean H) / H₀ and Soft-NC = mean H / H₀ (paper Eq. 2-3).

    Soft-NS is clamped after averaging over the draws.

    Args:
        h0: distance of the zero baseline, above 0.
        ns_distances: distances of the draws of Soft-NS, (K,).
        nc_distances: distances of the draws of Soft-NC, (K,).
    """
    ns = (h0 - np.mean(ns_distances, dtype=np.float64)) / h0
    return max(0.0, float(ns)), float(np.mean(nc_distances, dtype=np.float64) / h0)
