"""Confidence intervals of means, shares and ratios of sums."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import stdtr  # scipy.stats takes longer to import

CONFIDENCE = 0.95
ROUNDING = 1e-12  # smaller parts of a number are taken for rounding


def share_ends(
    values: np.ndarray, errors: np.ndarray, reach: np.ndarray, n: np.ndarray
) -> np.ndarray:
    """Return the ends of Wilson's intervals of shares, within [0, 1], (2, C).

    As in surveys (Korn and Graubard 1998), the interval uses the number of binary samples that
    would have the standard error, or `n` if all samples are 0 or all are 1.

    Args:
        values, errors: means of numbers between 0 and 1, and their standard errors, (C,) each.
        reach: reach of the intervals in standard errors, (C,).
        n: independent samples, (C,).
    """
    spread = values * (1 - values)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = reach**2 * np.where(spread > ROUNDING, errors**2 / spread, 1 / n)
        middle, half = values + width / 2, np.sqrt(np.maximum(width * (spread + width / 4), 0))
        return np.clip(np.stack([middle - half, middle + half]) / (1 + width), 0, 1)


def freedom_of_sum(errors: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a sum's degrees of freedom, and the factor by which its error is too small, (C,) each.

    Degrees of freedom are Welch's (1947) for independent means: a mean of few samples limits them
    however many samples the others have. If no mean has an error, degrees of freedom add up. NaN if
    a mean has a single sample.

    Args:
        errors: standard errors of the means, without correction for `n`, (D, C).
        n: independent samples of each mean, (D, C); 0: not part of the sum.
    """
    freedom = np.where(n > 1, n - 1.0, np.where(n > 0, np.nan, 1.0))
    variances = errors**2
    corrected = variances * n / freedom
    pooled, total = np.where(n > 0, freedom, 0.0).sum(axis=0), corrected.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        welch = total**2 / (corrected**2 / freedom).sum(axis=0)
        defined = np.isfinite(welch)
        squared = np.where(defined, total / variances.sum(axis=0), n.sum(axis=0) / pooled)
    return np.where(defined, welch, pooled), np.sqrt(squared)


# Hall's t ---------------------------------------------------------------------------------------
#
# Hall (1992) removes the skewness of t = (estimate - truth) / standard error by the monotone cubic
# g(t) = s + t + c t² + c² t³ / 3. Of a mean, c is a third of the skewness of the estimate, and
# s = c / 2. A ratio of sums and its standard error also depend on each other through the
# denominators, which adds the terms in `covariance`, from the same Edgeworth expansion.


def moment_roots(deviations: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the moments in Hall's t of ratios of sums, (4, C); see :func:`summed_roots`.

    With each sample's contribution to the ratio, rows are the sum of squares, the sum of cubes, the
    covariance with its share of the denominator, and this covariance times the first row, each as
    the root that scales like the ratio.

    Args:
        deviations: contribution of each sample to its column's ratio, with sum 0, (n, C).
        shares: share of each sample in the denominator, with sum 1, (n, C).
    """
    variance, covariance = (deviations**2).sum(axis=0), (deviations * shares).sum(axis=0)
    third, both = np.cbrt([(deviations**3).sum(axis=0), variance * covariance])
    return np.stack([np.sqrt(variance), third, covariance, both])


def summed_roots(roots: Iterable[np.ndarray]) -> np.ndarray:
    """Return the :func:`moment_roots` of a sum of independent numbers, (4, C)."""
    powers = np.array([2, 3, 1, 3])[:, None]
    variance, third, covariance, both = np.sum([root**powers for root in roots], axis=0)
    return np.stack([np.sqrt(variance), np.cbrt(third), covariance, np.cbrt(both)])


def adjusted_ends(roots: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return the reach of Hall's t intervals below and above the numbers, (2, C).

    `roots` are :func:`moment_roots`, (4, C); `reach` (C,) ignores skewness, in standard errors.
    """
    shift, curve = _coefficients(roots)
    ends = np.stack([reach, -reach]) - shift
    root = np.cbrt(1 + 3 * curve * ends)
    return np.array([[1], [-1]]) * 3 * ends / (root**2 + root + 1) * roots[0]


def equivalence_p_values(
    roots: np.ndarray, values: np.ndarray, margin: float, n: np.ndarray, freedom: np.ndarray
) -> np.ndarray:
    """Return p-values of two one-sided tests that numbers lie within ± a margin, (C,).

    It is the larger p-value of both sides (Schuirmann, 1987), by Hall's t, and below 5 % where the
    90 % interval lies within the margin. `roots` are :func:`moment_roots`, (4, C); the numbers
    `values`, their samples `n` and Student's degrees of `freedom` are (C,) each.
    """
    mirrored = roots * np.array([1, -1, -1, -1])[:, None]
    p_values = []
    for side_roots, distance in ((roots, values + margin), (mirrored, margin - values)):
        shift, curve = _coefficients(side_roots)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = distance / roots[0]
            adjusted = shift + t + curve * t**2 + curve**2 * t**3 / 3
        adjusted = np.where(roots[0] > 0, adjusted, np.copysign(np.inf, distance))
        p_values.append(stdtr(freedom, -adjusted * np.sqrt(freedom / n)))
    return np.maximum(*p_values)


def skewness(roots: np.ndarray) -> np.ndarray:
    """Return three times the curvature of Hall's transformation, (C,): a mean's skewness."""
    return 3 * _coefficients(roots)[1]


def _coefficients(roots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return shift and curvature of Hall's transformation; 0 without a standard error."""
    error, third, covariance, both = roots
    with np.errstate(divide="ignore", invalid="ignore"):
        cubes = [(root / error) ** 3 for root in (third, both)]
        shift, curve = cubes[0] / 6 - cubes[1] + covariance / error, cubes[0] / 3 - cubes[1]
    return np.where(error == 0, 0.0, shift), np.where(error == 0, 0.0, curve)
