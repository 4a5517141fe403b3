"""Areas under curves of a metric over the retaining probability π."""

from __future__ import annotations

import numpy as np

ENDS = {"pi_soft_ns": (0.0, 1.0), "pi_soft_nc": (0.0, 1.0)}
"""Value of each metric at π = 0 and at π = 1, known without any forward pass.

At π = 0 the sufficiency mask removes every perturbable token (the zero baseline, NS = 0) and the
comprehensiveness mask removes none (the clean input, NC = 0); at π = 1 it is the other way round.
"""


def auc(pi: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the trapezoid area under curves over the grid (paper, section on metrics).

    The area spans the grid only: a curve that is 1 everywhere has 0.9 on {0.05, …, 0.95}.

    Args:
        pi: retaining probabilities, strictly increasing, shape (P,), P ≥ 2.
        values: metric at each of them, shape (…, P); NaN gives NaN.

    Returns:
        Areas, shape (…).

    Raises:
        ValueError: the grid is too short or does not increase, or the shapes do not fit.
    """
    pi, values = np.asarray(pi, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if pi.ndim != 1 or pi.size < 2 or not (np.diff(pi) > 0).all():
        raise ValueError(f"the π grid must be two or more increasing numbers, got {pi.tolist()}")
    if values.shape[-1:] != pi.shape:
        raise ValueError(f"{pi.size} retaining probabilities do not fit values {values.shape}")
    return np.asarray(np.trapezoid(values, pi, axis=-1))


def auc_full(pi: np.ndarray, values: np.ndarray, metric: str) -> np.ndarray:
    """Return the area over the whole of [0, 1], with the metric's known ends added to the grid.

    Args:
        pi: retaining probabilities inside (0, 1), strictly increasing, shape (P,).
        values: metric at each of them, shape (…, P).
        metric: a key of :data:`ENDS`.

    Returns:
        Areas, shape (…).

    Raises:
        ValueError: unknown metric, a grid that is not inside (0, 1), or shapes that do not fit.
    """
    if metric not in ENDS:
        raise ValueError(f"the ends of '{metric}' are not known; allowed: {', '.join(ENDS)}")
    values = np.asarray(values, dtype=np.float64)
    first, last = (np.full((*values.shape[:-1], 1), end) for end in ENDS[metric])
    return auc(np.concatenate([[0.0], pi, [1.0]]), np.concatenate([first, values, last], axis=-1))
