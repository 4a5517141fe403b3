"""Intervals and equivalence tests against SciPy and each other."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t, ttest_1samp
from statsmodels.stats.proportion import proportion_confint

from pisoft.statistics import intervals
from pisoft.statistics.intervals import adjusted_ends, moment_roots, share_ends
from pisoft.statistics.samples import mean_rows

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("n", [2, 3, 400])
def test_mean_intervals_match_the_distribution(n):
    values = pd.DataFrame(np.random.default_rng(n).gamma(1, size=(n, 3)))
    values.loc[1:, 1] = np.nan
    values[2] = np.nan
    rows = mean_rows(values, {})
    expected = t.interval(0.95, n - 1, values[0].mean(), values[0].sem())
    assert rows.loc[0, ["low", "high"]].tolist() == pytest.approx(expected)
    assert rows.loc[1:, ["low", "high"]].isna().all(axis=None)


def ratio_roots(values, weights):
    """Moment roots of a ratio of sums Σ values / Σ weights, (n,) each, and the ratio."""
    ratio = np.array([values.sum() / weights.sum()])
    deviations = (values - ratio * weights) / weights.sum()
    return moment_roots(deviations[:, None], (weights / weights.sum())[:, None]), ratio


def equivalence(values, margin, weights=None):
    n = np.array([len(values)])
    roots, ratio = ratio_roots(values, np.ones(len(values)) if weights is None else weights)
    return intervals.equivalence_p_values(roots, ratio, margin, n, n - 1)[0]


@pytest.mark.parametrize("margin", [0.2, 0.6, 1.5])
def test_equivalence_without_skewness_is_two_t_tests(margin):
    values = 0.3 + np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    above = ttest_1samp(values, -margin, alternative="greater").pvalue
    below = ttest_1samp(values, margin, alternative="less").pvalue
    for mirrored in (values, -values):
        assert equivalence(mirrored, margin) == pytest.approx(max(above, below))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("mean", [0.3, -0.3])
def test_equivalence_tests_match_the_90_percent_interval(sign, mean):
    generator = np.random.default_rng(2)
    values, weights = generator.gamma(0.5, size=15), generator.gamma(2, size=15)
    values = sign * (values - values.sum() / weights.sum() * weights) + mean * weights
    reach = np.array([np.sqrt(15 / 14) * t.ppf(0.95, 14)])
    below, above = adjusted_ends(ratio_roots(values, weights)[0], reach)[:, 0]
    farthest = max(abs(mean - below), abs(mean + above))
    assert equivalence(values, farthest, weights) == pytest.approx(0.05)


def test_interval_ends_solve_the_cubic_of_halls_t():
    """For the sum of two ratios, with moments computed one sample at a time."""
    generator, reach, parts, sums = np.random.default_rng(3), 2.1, [], np.zeros(4)
    for n in (7, 11):
        values, weights = generator.gamma(1, size=n), generator.gamma(2, size=n)
        total = weights.sum()
        parts.append(ratio_roots(values, weights)[0])
        adds = [
            (v - values.sum() / total * w) / total for v, w in zip(values, weights, strict=True)
        ]
        variance = sum(one**2 for one in adds)
        covariance = sum(one * w / total for one, w in zip(adds, weights, strict=True))
        sums += [variance, sum(one**3 for one in adds), covariance, variance * covariance]
    roots, error = intervals.summed_roots(parts), np.sqrt(sums[0])
    shift = sums[1] / error**3 / 6 - sums[3] / error**3 + sums[2] / error
    curve = sums[1] / error**3 / 3 - sums[3] / error**3
    assert intervals.skewness(roots) == pytest.approx(3 * curve)
    below, above = adjusted_ends(roots, np.array([reach]))[:, 0] / error
    for end, expected in ((below, reach), (-above, -reach)):
        cubic = shift + end + curve * end**2 + curve**2 * end**3 / 3
        assert cubic == pytest.approx(expected)


def test_equal_samples_have_zero_width_and_certain_equivalence():
    roots, _ = ratio_roots(np.full(5, 0.5), np.ones(5))
    assert adjusted_ends(roots, np.array([3.0])).ravel().tolist() == [0, 0]
    assert intervals.skewness(roots).tolist() == [0]
    assert [equivalence(np.full(5, 0.5), margin) for margin in (0.6, 0.4)] == [0, 1]


@pytest.mark.parametrize("hits", [0, 3, 11, 20])
def test_share_intervals_are_wilsons_by_error_or_by_count(hits):
    error = np.sqrt(hits * (20 - hits) / 20**3)
    arguments = hits / 20, error, norm.ppf(0.975), 7 if error else 20
    ends = share_ends(*(np.array([number]) for number in arguments))
    assert ends.ravel() == pytest.approx(proportion_confint(hits, 20, method="wilson"))
