"""From raw scores of one step to scores in [0, 1]."""

from __future__ import annotations

import numpy as np

from pisoft.config.base import Normalisation

CONSTANT_SCORE = 0.5


def normalise(raw: np.ndarray, how: Normalisation) -> np.ndarray:
    """Return scores in [0, 1] for the raw scores (m,) of the perturbable tokens of one step.

    * ``minmax``: (a - min) / (max - min).
    * ``rank``: average ranks, the lowest at 0 and the highest at 1 if they are not tied.
    * ``max``: a / max(a), negative raw scores counted as 0.

    Scores that carry no order (all equal; for ``max``: none positive) become 0.5.

    Raises:
        ValueError: empty input or a raw score that is not finite.
    """
    raw = np.asarray(raw, dtype=np.float64)
    if raw.size == 0 or not np.isfinite(raw).all():
        raise ValueError("raw scores must be finite and at least one")
    if raw.min() == raw.max() or (how == "max" and raw.max() <= 0):
        return np.full(raw.shape, CONSTANT_SCORE)
    if how == "minmax":
        # Brought near 1 by a power of two, which is exact, so that the span of scores as large or
        # as small as floats can be neither overflows nor vanishes.
        scaled = np.ldexp(raw, 1 - int(np.frexp(np.abs(raw).max())[1]))
        span = scaled.max() - scaled.min()
        return np.clip((scaled - scaled.min()) / span, 0.0, 1.0)
    if how == "rank":
        from scipy.stats import rankdata  # takes half a second, which other jobs save

        return (rankdata(raw) - 1) / (raw.size - 1)
    return np.clip(raw / raw.max(), 0.0, 1.0)
