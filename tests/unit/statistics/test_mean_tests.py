"""Bootstrap and sign-flip tests of means against enumeration, loops and known power."""

import numpy as np
import pytest
from scipy.stats import t
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from helpers.sign_flips import step_down
from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.seeds import keyed_generator
from pisoft.statistics.mean_tests import EXACT_TEST, bootstrap_tests, holm, sign_flip_tests

FLIPPED = ["p_sign_flip", "p_sign_flip_adjusted"]
P_VALUES = ["p_value", "p_adjusted", "p_smallest"]


def bootstrapped(values, families, resamples=400, seed=1):
    """Tests of the means of one dataset's values (n, C)."""
    parts = values / max(len(values), 1)
    deviations = parts - (parts.mean(axis=0) if len(parts) else 0)
    settings = ResamplingJob(seed=seed, resamples=resamples)
    return bootstrap_tests(parts, {"d": deviations}, np.asarray(families), settings)


def looped(datasets, resamples, seed):
    """A single family, one resample and one hypothesis at a time: p-values and detectable means.

    `datasets` are what samples contribute to the means, (n, C), by name.
    """
    n = sum(map(len, datasets.values()))
    drawn = [
        values[keyed_generator(seed, "bootstrap-t", name).integers(k, size=(resamples, k))]
        for name, values in datasets.items()
        for k in [len(values)]
    ]

    def mean_and_error(parts):
        variance = sum(len(values) * values.var(axis=0) for values in parts)
        return sum(values.sum(axis=0) for values in parts), np.sqrt(variance)

    mean, error = mean_and_error(datasets.values())
    added = 2 / np.sqrt(n) * np.median(error)
    observed = abs(mean) / (error + added)
    again = [mean_and_error(parts) for parts in zip(*drawn, strict=True)]
    under_null = np.array([abs(other - mean) / (spread + added) for other, spread in again])
    left, p_value, p_values = list(np.argsort(-observed)), 2.0 ** (1 - n), {}
    while left:
        reached = 1 + (under_null[:, left].max(axis=1) >= observed[left[0]] - 1e-9).sum()
        p_values[left[0]] = p_value = max(p_value, reached / (resamples + 1))
        left = left[1:]
    critical = np.quantile(under_null.max(axis=1), 0.95)
    detectable = critical * (error + added) + t.ppf(0.8, n - 1) * error
    return [p_values[k] for k in range(len(mean))], detectable


@pytest.mark.parametrize("seed", range(2))
def test_families_share_resamples_and_step_down_separately(seed):
    generator, families = np.random.default_rng(seed), np.array([0, 1, 0, 0, 1, 0])
    scales = 1e12**families
    parts = {
        name: (generator.gamma(0.3, size=(n, 6)) * [1, 3, 0.2, 1, 1, 9] - 0.2) * scales / n
        for name, n in (("d", 11), ("e", 7))
    }
    deviations = {name: values - values.mean(axis=0) for name, values in parts.items()}
    settings = ResamplingJob(seed=seed, resamples=600)  # more than one chunk
    tests = bootstrap_tests(np.concatenate([*parts.values()]), deviations, families, settings)
    for family in (0, 1):
        in_family = {name: values[:, families == family] for name, values in parts.items()}
        p_values, detectable = looped(in_family, 600, seed)
        rows = tests[families == family]
        assert rows["p_adjusted"].tolist() == pytest.approx(p_values)
        assert rows["detectable"].tolist() == pytest.approx(detectable)
    assert (tests["p_value"] <= tests["p_adjusted"]).all()


def test_detectable_differences_of_normal_samples_match_the_t_test():
    values = np.random.default_rng(6).normal(size=(100, 1))
    values = (values - values.mean()) / values.std(ddof=1)
    expected = TTestPower().solve_power(nobs=100, alpha=0.05, power=0.8)
    detectable = bootstrapped(values, [0], 5000)["detectable"][0]
    assert detectable == pytest.approx(expected, rel=0.1)


def test_p_values_are_bounded_by_that_of_equal_signs():
    tests = bootstrapped(np.array([[1.0, 1.0], [1.1, 0.0], [1.2, 1.3], [1.3, 1.2]]), [0, 1])
    assert tests["p_smallest"].tolist() == tests["p_value"].tolist() == [1 / 8, 1 / 4]
    assert tests["detectable"].isna().all(), "no p-value can be below 5 %"
    assert (bootstrapped(np.ones((40, 300)), np.zeros(300))[P_VALUES] == 1 / 401).all(axis=None)


@pytest.mark.parametrize("seed", range(3))
def test_small_samples_are_tested_by_all_sign_flips(seed):
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(9, 1))
    parts = 0.7 * shared + generator.exponential(size=(9, 6)) - 0.6
    parts[generator.random(parts.shape) < 0.1] = 0.0  # samples of other pairs only
    families = np.array([0, 1, 0, 0, 1, 0])
    tests = sign_flip_tests(parts * 2.0 ** (40 * families), families, 10, ())
    for family in (0, 1):
        in_family = families == family
        adjusted = tests["p_sign_flip_adjusted"][in_family].tolist()
        assert adjusted == pytest.approx(step_down(parts[:, in_family]))
    plain = [step_down(parts[:, [column]])[0] for column in range(6)]
    assert tests["p_sign_flip"].tolist() == pytest.approx(plain)


@pytest.mark.parametrize(("samples", "tried"), [(16, 2**15), (17, 1 + 10)])
def test_every_sign_flip_is_tried_up_to_16_samples(samples, tried):
    tests = sign_flip_tests(np.ones((samples, 1)), np.zeros(1), 10, ())
    assert tests["p_sign_flip"][0] == 1 / tried, "the observed signs only"


def test_random_flips_approximate_all_flips_and_never_give_0():
    parts = np.random.default_rng(7).normal(0.4, 1, (EXACT_TEST, 5))
    exact = sign_flip_tests(parts, np.zeros(5), 10, ())
    padded = np.concatenate([parts, np.zeros((1, 5))])  # one more row, without effect
    drawn = sign_flip_tests(padded, np.zeros(5), 20_000, (1, "flips"))
    assert drawn[FLIPPED].to_numpy() == pytest.approx(exact[FLIPPED].to_numpy(), abs=0.015)
    clear = sign_flip_tests(np.ones((40, 300)), np.zeros(300), 999, (1, "flips"))
    assert (clear == 1 / 1000).all(axis=None), "for any number of tests"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [0, 1])
def test_without_two_samples_nothing_is_significant(n):
    assert (sign_flip_tests(np.ones((n, 2)), np.zeros(2), 10, ()) == 1).all(axis=None)
    assert (bootstrapped(np.ones((n, 2)), np.zeros(2))[P_VALUES] == 1).all(axis=None)
    assert sign_flip_tests(np.empty((3, 0)), np.zeros(0), 10, ()).empty
    assert bootstrapped(np.empty((3, 0)), np.zeros(0)).empty


@pytest.mark.filterwarnings("error")
def test_rounding_errors_are_not_significant():
    parts = np.random.default_rng(9).normal(size=(10, 3))
    parts -= parts.mean(axis=0)
    for families in (np.arange(3), np.zeros(3)):
        assert sign_flip_tests(parts, families, 10, ())["p_sign_flip"].tolist() == [1, 1, 1]
        assert bootstrapped(parts, families)["p_value"].tolist() == [1, 1, 1]
    values = np.random.default_rng(8).gamma(1e3, size=(40, 1))
    beside = np.hstack([values, np.tile(1e-8 * np.sin(values), 2)])  # whose errors do not count
    alone, family = (bootstrapped(one, np.zeros(one.shape[1])) for one in (values, beside))
    assert family["detectable"][0] == pytest.approx(alone["detectable"][0])
    assert (sign_flip_tests(np.zeros((4, 1)), np.zeros(1), 10, ()) == 1).all(axis=None)
    assert (bootstrapped(np.zeros((4, 1)), np.zeros(1))[P_VALUES] == 1).all(axis=None)


def test_holm_equals_statsmodels_within_each_family():
    generator = np.random.default_rng(10)
    p_values, families = generator.random(12) ** 3, generator.permutation([0, 1, 2] * 4)
    adjusted = holm(p_values, families)
    for family in range(3):
        expected = multipletests(p_values[families == family], method="holm")[1]
        assert adjusted[families == family] == pytest.approx(expected)
