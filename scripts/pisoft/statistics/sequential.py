"""Sequential comparisons: confidence sequences by betting.

A bettor against the mean m of values in [0, 1] has the capital K(m) = Π(1 + λ_s (x_s - m)). If m is
the true mean, the expected capital stays 1, and it reaches 1 / α with probability at most α
(Ville). The means whose capital has not reached 1 / α form a confidence sequence, valid after all
records
simultaneously: one may look after each record and stop at any. Bets are aGRAPA's, hedged, with or
without replacement (Waudby-Smith and Ramdas, JRSS-B 2024, arXiv 2010.09686; NeurIPS 2020).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from pisoft.statistics.mean_tests import holm

TRUNCATION = 0.5  # share of the capital that a bet can lose at most
MEANS = np.linspace(0, 1, 1025)  # exact in binary; 1/2 is one of them


def log_capitals(
    values: np.ndarray, means: np.ndarray = MEANS, pool: int | None = None
) -> Iterator[np.ndarray]:
    """Yield, after each record, the logarithm of the capital against each mean, (2, P, M).

    The first row bets on a higher mean, the second on a lower one; infinite capital means that m is
    impossible given the values. Each bet depends on the values before: λ = (μ - m) / (σ² + (μ -
    m)²).

    Args:
        values: values in [0, 1], (T, P); NaN only at the end of a column.
        means: m, (M,).
        pool: number of records to draw from without replacement; None: infinite.
    """
    capitals = np.zeros((2, values.shape[1], len(means)))
    total, squares = np.zeros((values.shape[1], 1)), np.full((values.shape[1], 1), 0.25)
    for read, value in enumerate(values[:, :, None]):
        # What the mean of the records not yet read is, if m is the mean of all.
        left = means[None] if pool is None else (pool * means - total) / (pool - read)
        gap = (total + 0.5) / (read + 1) - left
        bets = gap / (squares / (read + 1) + gap**2)
        inside = np.clip(left, 0, 1)
        with np.errstate(divide="ignore"):
            most = TRUNCATION / inside, TRUNCATION / (1 - inside)
        sides = zip(capitals, (1, -1), most, (left < 0, left > 1), strict=True)
        for capital, sign, limit, impossible in sides:
            gain = np.log1p(sign * np.clip(sign * bets, 0, limit) * (value - inside))
            capital += np.where(impossible, np.inf, gain)
        total = total + value
        squares = squares + (value - (total + 0.5) / (read + 2)) ** 2
        yield capitals


def confidence_sequence(
    values: np.ndarray, alpha: float | np.ndarray, pool: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds of the mean after each record, (T, P) each.

    Intervals are nested over time. They exclude the :data:`MEANS` against which the capital of
    either direction has reached 2 / α. Arguments as in :func:`log_capitals`; α may be (P,).
    """
    bounds = np.empty((2, *values.shape))
    enough = np.log(2 / np.reshape(alpha, (-1, 1)))
    for at, capitals in enumerate(log_capitals(values, pool=pool)):
        below, above = capitals >= enough
        for side, rejected in enumerate((below, above[:, ::-1])):
            count = np.logical_and.accumulate(rejected, axis=1).sum(axis=1)
            edge = MEANS[np.maximum(count - 1, 0)]
            bounds[side, at] = 1 - edge if side else edge
    return np.maximum.accumulate(bounds[0]), np.minimum.accumulate(bounds[1])


def holm_levels(
    values: np.ndarray, alpha: float, pairs: int, pool: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return levels, rejections of a mean of 1/2 and p-values by Holm's procedure.

    The running minimum of 2 / K is a p-value valid after every record, so Holm's procedure can be
    applied after each: rejections persist and raise the level of the other comparisons.

    Args:
        values: as in :func:`log_capitals`, (T, P).
        alpha: family-wise error.
        pairs: number of comparisons in the family, of which P are given.
        pool: as in :func:`log_capitals`.

    Returns:
        Levels (P,); record indices of rejections (P,), T without one; and p-values of a mean of 1/2
        after each record (T, P).
    """
    capitals = [one.max(axis=(0, 2)) for one in log_capitals(values, np.array([0.5]), pool)]
    length, count = values.shape
    p_values = np.ones((length, pairs))
    p_values[:, :count] = np.fmin(2 * np.exp(-np.fmax.accumulate(capitals, axis=0)), 1)
    corrected = holm(p_values.ravel(), np.arange(length).repeat(pairs)).reshape(length, pairs)
    corrected = corrected[:, :count]
    rejected = corrected <= alpha
    rejected_at = np.where(rejected.any(axis=0), rejected.argmax(axis=0), length)
    last = p_values[np.minimum(rejected_at, length - 1), np.arange(count)]
    before = np.empty(count, dtype=int)  # rejections before that of each
    before[np.lexsort((last, rejected_at))] = np.arange(count)
    total = int((rejected_at < length).sum())
    levels = alpha / (pairs - np.minimum(before, min(total, pairs - 1)))
    return levels, rejected_at, corrected


def decide(
    differences: np.ndarray,
    clip: float,
    alpha: float = 0.05,
    pairs: int | None = None,
    margin: float = 0,
    pool: int | None = None,
) -> pd.DataFrame:
    """Decide each comparison, with a family-wise error of α for differences and for equalities.

    Holm's procedure decides differences; equality is decided at level α / pairs.

    Args:
        differences: differences by record in the order of sampling, (T, P); NaN: not counted.
        clip: limit of differences, whose clipped mean is tested; choose it before looking.
        alpha: probability of any false difference, and of any false equality, at any number of
            records.
        pairs: number of comparisons from which these were chosen; None: these are all.
        margin: a pair is equal if its confidence sequence lies within ±margin; 0: never.
        pool: as in :func:`log_capitals`, at least T.

    Returns:
        A row for each of the P comparisons, when it is decided or at its last record: `n`, the
        number of records until then, of the `available` ones with a difference; as `text`,
        `higher`, `lower`, `equal` or `open`; the mean of clipped differences until then as `value`,
        with its confidence sequence `low` and `high`; and Holm's `p_adjusted` of a mean of 0, valid
        at any number of records.
    """
    missing = np.isnan(differences)
    order = np.argsort(missing, axis=0, kind="stable")  # the missing ones to the end
    values = np.clip(np.take_along_axis(differences, order, axis=0) / clip, -1, 1) / 2 + 0.5
    family = differences.shape[1] if pairs is None else pairs
    levels, rejected_at, p_values = holm_levels(values, alpha, family, pool)
    low, high = _mean_differences(values, clip, levels, pool)
    records = np.arange(len(values))[:, None]
    differs = records >= rejected_at
    equal = np.zeros_like(differs)
    if margin:
        lowest, highest = _mean_differences(values, clip, alpha / family, pool)
        equal = ~differs & (lowest >= -margin) & (highest <= margin)
        low, high = np.where(equal, lowest, low), np.where(equal, highest, high)
    reached = [differs & (low >= 0), differs & (high <= 0), equal]
    verdicts = np.select(reached, ["higher", "lower", "equal"], "open")
    available = (~missing).sum(axis=0)
    decided = (verdicts != "open") & (records < available)
    at = np.where(decided.any(axis=0), decided.argmax(axis=0), np.maximum(available - 1, 0))
    means = clip * (2 * np.nancumsum(values, axis=0) / (records + 1) - 1)
    at_stop = at, np.arange(len(at))
    columns = {"text": verdicts, "value": means, "low": low, "high": high, "p_adjusted": p_values}
    stopped = {name: column[at_stop] for name, column in columns.items()}
    stopped["value"] = np.where(available > 0, stopped["value"], np.nan)
    return pd.DataFrame({"n": np.minimum(at + 1, available), "available": available, **stopped})


def _mean_differences(
    values: np.ndarray, clip: float, alpha: float | np.ndarray, pool: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidence sequence of the mean difference from rescaled values, (T, P) each."""
    low, high = confidence_sequence(values, alpha, pool)
    return clip * (2 * low - 1), clip * (2 * high - 1)
