"""Calibration: the power α that gives scores a target mean (paper §π-Soft-NC/NS)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TOLERANCE = 1e-12  # on |mean(s^α) - π|; the contract promises 1e-9
MAX_ITERATIONS = 200


@dataclass(frozen=True)
class Calibration:
    """Scores of a step calibrated to P retaining probabilities."""

    alpha: np.ndarray  # solved powers (P,)
    achieved: np.ndarray  # mean of the transformed scores (P,)
    feasible: np.ndarray  # whether π is reachable without the score floor (P,)
    floored: int  # scores at or below the floor
    ceiled: int  # scores at or above 1 - floor


def calibrate(scores: np.ndarray, pi: np.ndarray, floor: float) -> Calibration:
    """Solve mean(s^α) = π over a step's perturbable tokens, for all π at once.

    Scores are clipped to [floor, 1 - floor] first, so that every π in (0, 1) has exactly one
    solution. The solver is Newton's method on log α, kept inside a bracket that is exact: as
    s_min^α ≤ mean(s^α) ≤ s_max^α, α lies between log π / log s_min and log π / log s_max.

    Args:
        scores: scores in [0, 1], (m,), m ≥ 1.
        pi: target retaining probabilities (P,), each in (0, 1).
        floor: ε of the clipping, with 0 < ε < 1 - ε < 1 in float64.

    Raises:
        ValueError: π outside (0, 1), such a floor, no scores, or scores outside [0, 1].
    """
    if not 0 < floor < 1 - floor < 1:
        raise ValueError(f"the score floor must be in (0, 0.5) and 1 - floor below 1, got {floor}")
    pi = np.asarray(pi, dtype=np.float64)
    if pi.size == 0 or not ((pi > 0) & (pi < 1)).all():
        raise ValueError(f"retaining probabilities must be in (0, 1), got {pi}")
    if scores.size == 0 or not ((scores >= 0) & (scores <= 1)).all():
        raise ValueError("scores must be in [0, 1], and at least one")
    log_scores = np.log(clip_scores(scores, floor))
    alpha = np.exp(_solve(log_scores, np.log(pi)))
    achieved, _ = _mean_and_slope(log_scores, alpha)
    ones, zeros = (scores == 1).mean(), (scores == 0).mean()
    at_an_end = scores.min() == scores.max() and ones + zeros > 0
    return Calibration(
        alpha=alpha,
        achieved=achieved,
        feasible=(pi > ones) & (pi < 1 - zeros) & (not at_an_end),
        floored=int((scores <= floor).sum()),
        ceiled=int((scores >= 1 - floor).sum()),
    )


def clip_scores(scores: np.ndarray, floor: float) -> np.ndarray:
    """Clip scores to [floor, 1 - floor], so that powers of them reach every mean in (0, 1)."""
    return np.clip(scores, floor, 1 - floor)


def retaining_probabilities(scores: np.ndarray, alpha: np.ndarray, floor: float) -> np.ndarray:
    """Return the scores of one step, first uncalibrated, then calibrated to each π, (P + 1, m).

    Args:
        scores: scores in [0, 1], (m,).
        alpha: power α for each π, (P,).
        floor: ε of the clipping.
    """
    clipped = clip_scores(scores, floor)
    return np.stack([scores, *(clipped**power for power in alpha)])


def _solve(log_scores: np.ndarray, log_pi: np.ndarray) -> np.ndarray:
    """Return log α (P,)."""
    low, high = np.log(log_pi / log_scores.min()), np.log(log_pi / log_scores.max())
    pi = np.exp(log_pi)
    log_alpha = (low + high) / 2
    for _ in range(MAX_ITERATIONS):
        mean, slope = _mean_and_slope(log_scores, np.exp(log_alpha))
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


def _mean_and_slope(log_scores: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean(s^α) and its derivative by log α, each (P,)."""
    exponents = alpha[:, None] * log_scores
    powers = np.exp(exponents) * (1 / log_scores.size)
    return powers.sum(axis=1), (powers * exponents).sum(axis=1)
