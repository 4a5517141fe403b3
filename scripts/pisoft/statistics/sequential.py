"""After how many records is a comparison decided? Confidence sequences by betting.

Bets against a mean m of values between 0 and 1 make a capital, K(m) = Π(1 + λ_s (x_s - m)), whose
expectation stays 1 if m is the mean, so that it hardly ever grows large (Ville's inequality). The
means that no capital speaks against are a confidence sequence: it holds the mean after all numbers
of records at once, so one may look after each and stop whenever one likes. Bets are aGRAPA's,
hedged, with or without replacement (Waudby-Smith and Ramdas, JRSS-B 2024, arXiv 2010.09686;
NeurIPS 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pisoft.errors import BenchmarkError

TRUNCATION = 0.5  # share of the capital that a bet can lose at most
MEANS = np.linspace(0, 1, 1025)  # exact in binary; 1/2 is one of them


class Decisions(NamedTuple):
    """Where each of P comparisons stops: the first record after which it is decided, or the last.

    Attributes:
        records: read until then, (P,).
        available: that have a difference, (P,).
        verdict: `higher`, `lower`, `equal` or `open`, (P,).
        low, high: confidence sequence of the mean of the clipped differences there, (P,).
    """

    records: np.ndarray
    available: np.ndarray
    verdict: np.ndarray
    low: np.ndarray
    high: np.ndarray


def log_capitals(
    values: np.ndarray, means: np.ndarray = MEANS, pool: int | None = None
) -> Iterator[np.ndarray]:
    """Yield, after each record, the logarithm of the capital against each mean, (2, P, M).

    The first bets that the mean is higher, the second that it is lower; infinite: it cannot be,
    given the values read. A bet is of the values before: λ = (μ - m) / (σ² + (μ - m)²).

    Args:
        values: between 0 and 1, (T, P); behind a column's NaN are only more of them.
        means: m, (M,).
        pool: number of records that they are drawn from without replacement; None: infinite.
    """
    count = values.shape[1]
    capitals = np.zeros((2, count, len(means)))
    total, squares = np.zeros((count, 1)), np.full((count, 1), 0.25)
    for read, value in enumerate(values[:, :, None]):
        # What the mean of the records not yet read is, if m is the mean of all.
        left = means[None] if pool is None else (pool * means - total) / (pool - read)
        gap = (total + 0.5) / (read + 1) - left
        bets = gap / (squares / (read + 1) + gap**2)
        inside = np.clip(left, 0, 1)
        with np.errstate(divide="ignore"):
            most = TRUNCATION / inside, TRUNCATION / (1 - inside)
        for capital, sign, limit in zip(capitals, (1, -1), most, strict=True):
            stake = np.clip(sign * bets, 0, limit)
            capital += np.log1p(sign * stake * (value - inside))
        capitals[0][np.broadcast_to(left < 0, capitals[0].shape)] = np.inf
        capitals[1][np.broadcast_to(left > 1, capitals[1].shape)] = np.inf
        total = total + value
        squares = squares + (value - (total + 0.5) / (read + 2)) ** 2
        yield capitals


def confidence_sequence(
    values: np.ndarray, alpha: float, pool: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds of the mean after each record, (T, P) each.

    Each pair of bounds lies within those before; outside it are the :data:`MEANS` against which
    the capital of either direction has reached 2 / α. Arguments as :func:`log_capitals`.
    """
    bounds = np.empty((2, *values.shape))
    rows, last = np.arange(values.shape[1]), len(MEANS) - 1
    for at, capitals in enumerate(log_capitals(values, pool=pool)):
        below, above = capitals >= np.log(2 / alpha)
        up = np.logical_and.accumulate(below, axis=1).sum(axis=1)
        down = np.logical_and.accumulate(above[:, ::-1], axis=1).sum(axis=1)
        bounds[:, at, rows] = MEANS[np.maximum(up - 1, 0)], MEANS[last - np.maximum(down - 1, 0)]
    return np.maximum.accumulate(bounds[0]), np.minimum.accumulate(bounds[1])


def decide(
    differences: np.ndarray,
    clip: float,
    alpha: float = 0.05,
    pairs: int | None = None,
    margin: float = 0,
    pool: int | None = None,
) -> Decisions:
    """Say when each comparison is decided, with a family-wise error of α (Bonferroni over pairs).

    Args:
        differences: of two methods, by record in the order of sampling, (T, P); NaN: not both
            have a value, and the record does not count for this pair.
        clip: differences are cut off at ±clip, so the mean is that of what is left; choose it
            before looking at values.
        alpha: that any verdict is false, at any number of records.
        pairs: number of comparisons from which these P were chosen; None: all are here.
        margin: a pair is equal if its confidence sequence lies within ±margin; 0: never.
        pool: as in :func:`log_capitals`.

    Raises:
        BenchmarkError: α outside (0, 1), a clip that is not positive, a negative margin, or a pool
            of fewer records than there are.
    """
    if not 0 < alpha < 1:
        raise BenchmarkError(f"alpha: must lie between 0 and 1, got {alpha}")
    if not 0 < clip < np.inf:
        raise BenchmarkError(f"clip: must be positive and finite, got {clip}")
    if not 0 <= margin < np.inf:
        raise BenchmarkError(f"margin: must not be negative, got {margin}")
    if pool is not None and pool < len(differences):
        raise BenchmarkError(f"pool: {pool} records are fewer than the {len(differences)} read")
    missing = np.isnan(differences)
    order = np.argsort(missing, axis=0, kind="stable")  # the missing ones to the end
    values = np.clip(np.take_along_axis(differences, order, axis=0) / clip, -1, 1) / 2 + 0.5
    each = alpha / (differences.shape[1] if pairs is None else pairs)
    low, high = (clip * (2 * one - 1) for one in confidence_sequence(values, each, pool))
    verdicts = np.select(
        [low >= 0, high <= 0, (low >= -margin) & (high <= margin)],
        ["higher", "lower", "equal"],
        "open",
    )
    available = (~missing).sum(axis=0)
    decided = (verdicts != "open") & (np.arange(len(values))[:, None] < available)
    at = np.where(decided.any(axis=0), decided.argmax(axis=0), np.maximum(available - 1, 0))
    columns = np.arange(len(at))
    stopped = (one[at, columns] for one in (verdicts, low, high))
    return Decisions(np.minimum(at + 1, available), available, *stopped)
