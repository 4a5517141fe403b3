"""Tests of many means at once, corrected by step-down within families.

docs/explanation/which-test.md states their null hypotheses, and how simulation chose them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pandas as pd
from scipy.special import stdtrit  # scipy.stats takes longer to import

from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.seeds import keyed_generator
from pisoft.statistics.metrics import LEVEL

EXACT_TEST = 16  # samples up to which every sign flip is enumerated
TOLERANCE = 1e-9  # of Σ|parts|, within which a resampled sum counts as equal to the observed one
CHUNK = 512  # resamples or sign flips held at a time
SHRINKAGE = 2.0  # of standard errors towards the family's median, over √n
POWER = 0.8  # with which a `detectable` difference is found


def bootstrap_tests(
    parts: np.ndarray,
    deviations: Mapping[str, np.ndarray],
    families: np.ndarray,
    settings: ResamplingJob,
    shrinkage: float = SHRINKAGE,
) -> pd.DataFrame:
    """Test whether means are 0 by a two-sided step-down bootstrap-t (Romano and Wolf, 2005).

    Each studentised mean is compared with the largest of its family in the same resample, centred
    at 0 and studentised by the resample's standard error. Few, skewed samples make this error too
    small, so a part of the family's median is added (as in Tusher et al., 2001). No p-value is
    below that of n equal signs, 2^(1 - n), n without samples that contribute 0.

    Args:
        parts: contribution of each sample to each mean, (samples, C); 0 without a value.
        deviations: deviations of parts from their mean, by dataset, (samples of the dataset, C).
        families: family index of each column, (C,).
        settings: seed and number of resamples.
        shrinkage: shrinkage of standard errors towards the family's median, times √n.

    Returns:
        `p_value`, `p_adjusted` (corrected), `p_smallest` (the smallest that either could be) and
        `detectable`, the smallest mean that the first, strictest step finds at :data:`LEVEL` in a
        share :data:`POWER` of samples like these; NaN where none can be found.
    """
    key = (settings.seed, "bootstrap-t")
    drawn = [
        resample_counts(keyed_generator(*key, dataset), len(values), settings.resamples)
        for dataset, values in deviations.items()
    ]
    resamples = (_sums(counts, deviations.values()) for counts in zip(*drawn, strict=True))
    _, errors = next(resamples)  # of the samples themselves
    n = (parts != 0).sum(axis=0)
    added = shrinkage / np.sqrt(np.maximum(n, 1)) * _medians_of_families(errors[0], families)
    units = errors[0] + added
    plain, adjusted, critical = _step_down(
        np.abs(parts.sum(axis=0)) / units,
        TOLERANCE * np.abs(parts).sum(axis=0) / units,
        (np.abs(sums) / (errors + added) for sums, errors in resamples),
        families,
        drawn=1,
    )
    smallest = np.clip(2.0 ** (1 - n), 1 / (settings.resamples + 1), 1)
    detectable = critical * units + stdtrit(n - 1, POWER) * errors[0]
    return pd.DataFrame(
        {
            "p_value": np.maximum(plain, smallest),
            "p_adjusted": np.maximum(adjusted, smallest),
            "p_smallest": smallest,
            "detectable": np.where(smallest < LEVEL, detectable, np.nan),
        }
    )


def sign_flip_tests(
    parts: np.ndarray, families: np.ndarray, flips: int, key: tuple[object, ...]
) -> pd.DataFrame:
    """Test by sign flips whether the two sides of a difference are exchangeable within a sample.

    If they are, the sign of a difference is arbitrary. Step-down max-T (Westfall and Young 1993,
    algorithm 2.8) compares each mean with the largest of its family under the same flip. Returns
    two-sided p-values: `p_sign_flip` and, corrected, `p_sign_flip_adjusted`.

    Args:
        parts: contribution of each sample to each mean, (samples, C).
        families: family index of each column, (C,).
        flips: number of flips; up to :data:`EXACT_TEST` samples, all are enumerated.
        key: key of the random numbers.
    """
    plain, adjusted, _ = _step_down(
        np.abs(parts.sum(axis=0)),
        TOLERANCE * np.abs(parts).sum(axis=0),
        (np.abs(signs @ parts) for signs in _sign_flips(len(parts), flips, key)),
        families,
        drawn=0 if len(parts) <= EXACT_TEST else 1,  # the observed signs are among all of them
    )
    return pd.DataFrame({"p_sign_flip": plain, "p_sign_flip_adjusted": adjusted})


def holm(p_values: np.ndarray, families: np.ndarray) -> np.ndarray:
    """Return p-values corrected within families by Holm's step-down, (C,)."""
    ordered = pd.Series(p_values).sort_values()
    members = ordered.groupby(families[ordered.index])
    raised = ordered * (members.transform("size") - members.cumcount())
    corrected = raised.groupby(families[ordered.index]).cummax().clip(upper=1)
    return corrected.sort_index().to_numpy()


def resample_counts(generator: np.random.Generator, n: int, resamples: int) -> Iterator[np.ndarray]:
    """Yield the counts of n samples, (…, n): once each, then resamples in chunks."""
    yield np.ones((1, n))
    for first in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - first)
        drawn = generator.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(float)


def _sums(
    counts: Iterable[np.ndarray], deviations: Iterable[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the resampled sums over all datasets, and their standard errors, (B, C)."""
    total, variance = np.zeros(()), np.zeros(())
    for count, values in zip(counts, deviations, strict=True):
        sums = count @ values
        total = total + sums
        variance = variance + count @ values**2 - sums**2 / max(len(values), 1)
    return total, np.sqrt(np.maximum(variance, 0))


def _medians_of_families(errors: np.ndarray, families: np.ndarray) -> np.ndarray:
    """Return the median non-zero standard error of each column's family, (C,); 1 without any."""
    largest = pd.Series(errors).groupby(families).transform("max")
    positive = pd.Series(errors).where(errors > TOLERANCE * largest)
    return positive.groupby(families).transform("median").fillna(1.0).to_numpy()


def _step_down(
    observed: np.ndarray,
    tolerance: np.ndarray,
    under_null: Iterable[np.ndarray],
    families: np.ndarray,
    drawn: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return p-values, plain and corrected within families, and critical values, each (C,).

    `under_null` yields chunks of draws (B, C). A draw counts as equal to `observed` (C,) if it is
    below by at most the `tolerance` (C,). The observed statistics count as `drawn` draws, 0 or 1.
    """
    threshold = observed - tolerance
    members = [np.flatnonzero(families == index) for index in np.unique(families)]
    orders = [columns[np.argsort(observed[columns])] for columns in members]
    plain, adjusted = np.full((2, observed.size), float(drawn))
    maxima: list[list[np.ndarray]] = [[] for _ in orders]
    for statistics in under_null:
        plain += (statistics >= threshold).sum(axis=0)
        for order, family_maxima in zip(orders, maxima, strict=True):
            # The largest among each column and those below it.
            largest = np.maximum.accumulate(statistics[:, order], axis=1)
            adjusted[order] += (largest >= threshold[order]).sum(axis=0)
            family_maxima.append(largest[:, -1])
        drawn += len(statistics)
    critical = np.empty(observed.size)
    for order, family_maxima in zip(orders, maxima, strict=True):
        # A larger statistic never has a larger p-value.
        adjusted[order] = np.maximum.accumulate(adjusted[order][::-1])[::-1]
        critical[order] = np.quantile(np.concatenate(family_maxima), 1 - LEVEL)
    return plain / drawn, adjusted / drawn, critical


def _sign_flips(samples: int, flips: int, key: tuple[object, ...]) -> Iterator[np.ndarray]:
    """Yield sign flips in chunks, (flips, samples); enumerations hold one of each opposite pair."""
    if samples <= EXACT_TEST:
        numbers = np.arange(2 ** max(samples - 1, 0))[:, None]
        every = 1.0 - 2.0 * (numbers >> np.arange(samples) & 1)
        yield from np.array_split(every, -(-len(every) // CHUNK))
        return
    generator = keyed_generator(*key)
    for first in range(0, flips, CHUNK):
        size = (min(CHUNK, flips - first), samples)
        yield 1.0 - 2.0 * generator.integers(0, 2, size, dtype=np.int8)
