"""Calibration: the power α that gives scores a target mean (paper §π-Soft-NC/NS)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TOLERANCE = 1e-12  # on |mean(s^α) - π|; the contract promises 1e-9
MAX_ITERATIONS = 200


@dataclass(frozen=True)
class Calibration:
    """Scores of N steps calibrated to P retaining probabilities.

    Attributes:
        alpha: solved powers (N, P).
        achieved: mean of the transformed scores (N, P).
        feasible: whether π is reachable without the score floor (N, P).
        floored: scores at or below the floor (N,).
        ceiled: scores at or above 1 - floor (N,).
    """

    alpha: np.ndarray
    achieved: np.ndarray
    feasible: np.ndarray
    floored: np.ndarray
    ceiled: np.ndarray


def calibrate(scores: np.ndarray, present: np.ndarray, pi: np.ndarray, floor: float) -> Calibration:
    """Solve mean(s^α) = π over each row's perturbable tokens, all rows and all π at once.

    Scores are clipped to [floor, 1 - floor] first, so that every π in (0, 1) has exactly one
    solution. The solver is Newton's method on log α, kept inside a bracket that is exact: as
    s_min^α ≤ mean(s^α) ≤ s_max^α, α lies between log π / log s_min and log π / log s_max.

    Args:
        scores: scores in [0, 1], (N, m), anything where not present.
        present: true at perturbable tokens, (N, m); at least one per row.
        pi: target retaining probabilities (P,), each in (0, 1).
        floor: ε of the clipping, with 0 < ε < 1 - ε < 1 in float64.

    Raises:
        ValueError: π outside (0, 1), such a floor, a row without tokens, or scores outside [0, 1].
    """
    if not 0 < floor < 1 - floor < 1:
        raise ValueError(f"the score floor must be in (0, 0.5) and 1 - floor below 1, got {floor}")
    pi = np.asarray(pi, dtype=np.float64)
    if pi.size == 0 or not ((pi > 0) & (pi < 1)).all():
        raise ValueError(f"retaining probabilities must be in (0, 1), got {pi}")
    counts = present.sum(axis=1)
    if (counts == 0).any():
        raise ValueError("every row needs at least one perturbable token")
    given = scores[present]
    if not ((given >= 0) & (given <= 1)).all():
        raise ValueError("scores must be in [0, 1]")
    log_scores = np.log(clip_scores(np.where(present, scores, 0.5), floor))  # (N, m)
    weights = present / counts[:, None]
    alpha = np.exp(_solve(log_scores, weights, present, np.log(pi)))
    achieved, _ = _mean_and_slope(log_scores, weights, alpha)
    ones = (present & (scores == 1)).sum(axis=1) / counts
    zeros = (present & (scores == 0)).sum(axis=1) / counts
    constant = np.where(present, scores, -np.inf).max(1) == np.where(present, scores, np.inf).min(1)
    varied_or_inner = ~constant | ((ones == 0) & (zeros == 0))
    return Calibration(
        alpha=alpha,
        achieved=achieved,
        feasible=(pi > ones[:, None]) & (pi < 1 - zeros[:, None]) & varied_or_inner[:, None],
        floored=(present & (scores <= floor)).sum(axis=1),
        ceiled=(present & (scores >= 1 - floor)).sum(axis=1),
    )


def clip_scores(scores: np.ndarray, floor: float) -> np.ndarray:
    """Clip scores to [floor, 1 - floor], so that powers of them reach every mean in (0, 1)."""
    return np.clip(scores, floor, 1 - floor)


def retaining_probabilities(scores: np.ndarray, alpha: np.ndarray, floor: float) -> np.ndarray:
    """Return the scores as they are, and calibrated to every π, (P + 1, m).

    Args:
        scores: of one step, in [0, 1], (m,).
        alpha: its power for every π, (P,).
        floor: ε of the clipping.
    """
    clipped = clip_scores(scores, floor)
    return np.stack([scores, *(clipped**power for power in alpha)])


def _solve(
    log_scores: np.ndarray, weights: np.ndarray, present: np.ndarray, log_pi: np.ndarray
) -> np.ndarray:
    """Return log α (N, P)."""
    lowest = np.where(present, log_scores, np.inf).min(axis=1)[:, None]
    highest = np.where(present, log_scores, -np.inf).max(axis=1)[:, None]
    low, high = np.log(log_pi / lowest), np.log(log_pi / highest)
    pi = np.exp(log_pi)
    log_alpha = (low + high) / 2
    for _ in range(MAX_ITERATIONS):
        mean, slope = _mean_and_slope(log_scores, weights, np.exp(log_alpha))
        excess = mean - pi
        if (np.abs(excess) <= TOLERANCE).all():
            break
        low = np.where(excess > 0, log_alpha, low)
        high = np.where(excess < 0, log_alpha, high)
        # Newton on log(mean) rather than mean: nearly straight for sparse scores.
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = log_alpha - (np.log(mean) - log_pi) * mean / slope
        inside = (newton > low) & (newton < high)
        moved = np.where(inside, newton, (low + high) / 2)
        log_alpha = np.where(np.abs(excess) <= TOLERANCE, log_alpha, moved)
    return log_alpha


def _mean_and_slope(
    log_scores: np.ndarray, weights: np.ndarray, alpha: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean(s^α) and its derivative by log α, each (N, P).

    One π at a time keeps the memory at (N, m), whatever the grid.
    """
    means, slopes = np.empty_like(alpha), np.empty_like(alpha)
    for column in range(alpha.shape[1]):
        exponents = alpha[:, column, None] * log_scores
        powers = weights * np.exp(exponents)
        means[:, column] = powers.sum(axis=1)
        slopes[:, column] = (powers * exponents).sum(axis=1)
    return means, slopes
