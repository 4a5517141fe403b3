"""Areas under curves over the retaining probability π, and their Monte Carlo variance."""

from __future__ import annotations

import numpy as np

ENDS = {"pi_soft_ns": (0.0, 1.0), "pi_soft_nc": (0.0, 1.0)}
"""Value of each metric at π = 0 and at π = 1, known without any forward pass.

At π = 0 the sufficiency mask removes every perturbable token (the zero baseline, NS = 0) and the
comprehensiveness mask removes none (the clean input, NC = 0); at π = 1 it is the other way round.
"""


def auc(pi: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the trapezoid areas (…) under curves over the grid (paper, section on metrics).

    The area spans the grid only: a curve that is 1 everywhere has 0.9 on {0.05, …, 0.95}.

    Args:
        pi: retaining probabilities, strictly increasing, shape (P,), P ≥ 2.
        values: metric at each of them, shape (…, P); NaN gives NaN.

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
    """Return areas (…) over the whole of [0, 1], with the metric's known ends added to the grid.

    Args:
        pi: retaining probabilities inside (0, 1), strictly increasing, shape (P,).
        values: metric at each of them, shape (…, P).
        metric: a key of :data:`ENDS`.

    Raises:
        ValueError: unknown metric, a grid that is not inside (0, 1), or shapes that do not fit.
    """
    if metric not in ENDS:
        raise ValueError(f"the ends of '{metric}' are not known; allowed: {', '.join(ENDS)}")
    values = np.asarray(values, dtype=np.float64)
    first, last = (np.full((*values.shape[:-1], 1), end) for end in ENDS[metric])
    return auc(np.concatenate([[0.0], pi, [1.0]]), np.concatenate([first, values, last], axis=-1))


def area_variance(curves: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the Monte Carlo variance of mean areas under curves, and its degrees of freedom.

    With several draws, it is the sample variance of their areas. With a single draw, it comes from
    the distance of each point to the line through its neighbours, since the expected curve is
    smooth in π (Gasser, Sroka and Jennen-Steinmetz, 1986). Both estimators assume independent draws
    and points. They overestimate the variance for Latin hypercube masks, which spread more evenly,
    and for a single draw of masks that keep a fixed number of tokens, whose curve has steps.

    Args:
        curves: the metric at each π in each draw, (…, P, K).
        grid: retaining probabilities, (P,).

    Returns:
        Variances, (…); NaN where a single draw has fewer than three π. Degrees of freedom of each.
    """
    draws = curves.shape[-1]
    if draws > 1:
        areas = np.trapezoid(curves, grid, axis=-2)
        return np.var(areas, ddof=1, axis=-1) / draws, draws - 1
    if grid.size < 3:
        return np.full(curves.shape[:-2], np.nan), 0
    points = curves[..., 0]
    left, right = np.diff(grid)[:-1], np.diff(grid)[1:]
    before, after = right / (left + right), left / (left + right)  # weights of the neighbours
    off = before * points[..., :-2] + after * points[..., 2:] - points[..., 1:-1]
    inner = off**2 / (before**2 + after**2 + 1)  # variance of each point but the ends
    at_points = np.concatenate([inner[..., :1], inner, inner[..., -1:]], axis=-1)
    weights = np.trapezoid(np.eye(grid.size), grid, axis=0)
    return at_points @ weights**2, grid.size - 2
