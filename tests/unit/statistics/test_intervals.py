"""Intervals and equivalence tests against SciPy, and each against the other."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t, ttest_1samp
from statsmodels.stats.proportion import proportion_confint

from pisoft.statistics import intervals
from pisoft.statistics.intervals import adjusted_ends, moment_roots, share_ends
from pisoft.statistics.samples import mean_rows


@pytest.mark.parametrize("n", [2, 3, 400])
def test_intervals_of_means_are_those_of_the_distribution(n):
    values = pd.DataFrame(np.random.default_rng(n).gamma(1, size=(n, 3)))
    values.loc[1:, 1] = np.nan
    values[2] = np.nan
    rows = mean_rows(values, {})
    expected = t.interval(0.95, n - 1, values[0].mean(), values[0].sem())
    assert rows.loc[0, ["low", "high"]].tolist() == pytest.approx(expected)
    assert rows.loc[1:, ["low", "high"]].isna().all(axis=None)


def of_mean(values):
    """Moment roots of the mean of values (n,), and its number of samples."""
    shares = np.full((len(values), 1), 1 / len(values))
    return moment_roots((values - values.mean())[:, None] / len(values), shares)


def equivalence(values, margin):
    n, mean = np.array([len(values)]), values.mean(keepdims=True)
    return intervals.equivalence_p_values(of_mean(values), mean, margin, n, n - 1)[0]


def test_moments_of_a_sum_are_those_of_its_parts():
    generator = np.random.default_rng(1)
    sizes, parts = (7, 11), []
    for n in sizes:
        top, bottom = generator.gamma(1, size=(n, 3)), generator.gamma(2, size=(n, 3))
        shares = bottom / bottom.sum(axis=0)
        ratio = top.sum(axis=0) / bottom.sum(axis=0)
        parts.append((top / bottom.sum(axis=0) - ratio * shares, shares))
    halved = intervals.summed_roots([moment_roots(*part) / 2 for part in parts])
    deviations = np.concatenate([part[0] / 2 for part in parts])
    covariances = np.array([(d * s).sum(axis=0) / 2 for d, s in parts])
    variances = np.array([(d**2).sum(axis=0) / 4 for d, _ in parts])
    roots = [np.sqrt((deviations**2).sum(axis=0)), np.cbrt((deviations**3).sum(axis=0))]
    roots += [covariances.sum(axis=0), np.cbrt((variances * covariances).sum(axis=0))]
    assert halved == pytest.approx(np.array(roots))


@pytest.mark.parametrize("margin", [0.2, 0.6, 1.5])
def test_equivalence_without_skewness_is_two_t_tests(margin):
    values = 0.3 + np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    above = ttest_1samp(values, -margin, alternative="greater").pvalue
    below = ttest_1samp(values, margin, alternative="less").pvalue
    for mirrored in (values, -values):
        assert equivalence(mirrored, margin) == pytest.approx(max(above, below))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("mean", [0.3, -0.3])
def test_a_margin_at_the_farther_end_of_the_interval_of_90_percent_has_p_of_5_percent(sign, mean):
    values = np.random.default_rng(2).gamma(0.5, size=15)
    values = sign * (values - values.mean()) + mean
    reach = np.array([np.sqrt(15 / 14) * t.ppf(0.95, 14)])
    below, above = adjusted_ends(of_mean(values), reach)[:, 0]
    farthest = max(abs(mean - below), abs(mean + above))
    assert equivalence(values, farthest) == pytest.approx(0.05)


def test_samples_that_agree_have_an_interval_without_width_and_certain_equivalence():
    roots = of_mean(np.full(5, 0.5))
    assert adjusted_ends(roots, np.array([3.0])).ravel().tolist() == [0, 0]
    assert intervals.skewness(roots).tolist() == [0]
    assert [equivalence(np.full(5, 0.5), margin) for margin in (0.6, 0.4)] == [0, 1]


@pytest.mark.parametrize("hits", [0, 3, 11, 20])
def test_shares_have_wilsons_interval_by_their_errors_or_without_any_by_their_number(hits):
    error = np.sqrt(hits * (20 - hits) / 20**3)
    of_shares = hits / 20, error, norm.ppf(0.975), 7 if error else 20
    ends = share_ends(*(np.array([number]) for number in of_shares))
    assert ends.ravel() == pytest.approx(proportion_confint(hits, 20, method="wilson"))
