"""Paired permutation tests of many means at once: plain, with Holm's correction, and by max-T.

If a mean is 0, the sign of a sample's number is up to chance: the p-value is the share of sign
flips that give a mean at least as far from 0. All tests see the same flips. Step-down max-T
(Westfall and Young 1993, algorithm 2.8) compares each mean with the largest of its family under
the same flip. So it knows how tests hang together, which Holm's correction does not, and its
smallest p-value does not depend on their number. Means are compared as they are: divided by their
standard errors, they would find more where these are unequal, but with a dozen skewed samples a
family would be wrong in about 20 % of cases (`make bench-comparisons`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from pisoft.keyed import keyed_generator

EXACT = 16  # samples up to which every sign flip is tried
CHUNK = 512  # sign flips at a time: those of 4,000 means take 16 MB
TOLERANCE = 1e-9  # of a mean, within which one under a flip counts as equal to it
P_VALUES = ["p_value", "p_holm", "p_adjusted", "p_smallest"]


def sign_flip_tests(
    parts: np.ndarray, families: Sequence[object], flips: int, key: tuple[object, ...]
) -> pd.DataFrame:
    """Test whether the sums of columns are 0, by flipping the signs of whole rows.

    Args:
        parts: what each sample adds to each mean, (samples, C).
        families: of every column, the name of the family that it is corrected within, (C,).
        flips: how many sign flips are drawn; up to :data:`EXACT` samples, all are tried.
        key: of the random numbers.

    Returns:
        Two-sided p-values, a row per column: plain, with Holm's correction, by step-down max-T,
        and the smallest that a plain one or one by max-T can be.
    """
    observed = np.abs(parts.sum(axis=0))
    reached = observed * (1 - TOLERANCE)
    family = pd.factorize(pd.Series(list(families), dtype=object))[0]
    members = [np.flatnonzero(family == number) for number in np.unique(family)]
    orders = [own[np.argsort(observed[own])] for own in members]
    exact = len(parts) <= EXACT
    plain, adjusted = np.full((2, len(observed)), 0.0 if exact else 1.0)  # what is seen is a draw
    tried = 0 if exact else 1
    for signs in _sign_flips(len(parts), flips, key):
        sums = np.abs(signs @ parts)
        plain += (sums >= reached).sum(axis=0)
        for order in orders:  # the largest sum of the columns up to each, which are not larger
            largest = np.maximum.accumulate(sums[:, order], axis=1)
            adjusted[order] += (largest >= reached[order]).sum(axis=0)
        tried += len(signs)
    for order in orders:  # whoever lies further from 0 has no larger p-value
        adjusted[order] = np.maximum.accumulate(adjusted[order][::-1])[::-1]
    table = pd.DataFrame({"p_value": plain / tried, "p_adjusted": adjusted / tried})
    table["p_smallest"] = np.clip(2.0 ** (1 - (parts != 0).sum(axis=0)), 1 / tried, 1)
    table["p_holm"] = table.groupby(family)["p_value"].transform(holm)
    return table[P_VALUES]


def holm(p_values: pd.Series) -> np.ndarray:
    """Return p-values with Holm's correction over all of them.

    statsmodels has it, too, but collects garbage at every call, which takes longer than the tests.
    """
    order = np.argsort(p_values.to_numpy())
    adjusted = np.empty(len(order))
    weighted = p_values.to_numpy()[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(weighted), 1)
    return adjusted


def _sign_flips(samples: int, flips: int, key: tuple[object, ...]) -> Iterator[np.ndarray]:
    """Yield signs in chunks of rows, (flips, samples): 1 or -1.

    Of all flips, one of each two opposite ones: a mean and its opposite are as far from 0.
    """
    if samples <= EXACT:
        numbers = np.arange(2 ** max(samples - 1, 0))
        for first in range(0, len(numbers), CHUNK):
            chunk = numbers[first : first + CHUNK, np.newaxis]
            yield 1.0 - 2.0 * (chunk >> np.arange(samples) & 1)
        return
    generator = keyed_generator(*key)
    for first in range(0, flips, CHUNK):
        size = (min(CHUNK, flips - first), samples)
        yield 1.0 - 2.0 * generator.integers(0, 2, size, dtype=np.int8)
