"""Tests of many means against every choice of signs, one after the other, and in simulations."""

import itertools

import numpy as np
import pytest
from scipy.stats import permutation_test
from statsmodels.stats.multitest import multipletests

from flipping import step_down
from pisoft.statistics.sign_flips import EXACT, sign_flip_tests


@pytest.mark.parametrize("seed", range(5))
def test_few_samples_are_tested_by_all_flips(seed):
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(9, 1))
    parts = 0.7 * shared + generator.exponential(size=(9, 6)) - 0.6
    parts[generator.random(parts.shape) < 0.1] = 0.0  # samples that only other pairs have
    families = ["a", "b", "a", "a", "b", "a"]
    found = sign_flip_tests(parts, families, 10, ())
    for name in ("a", "b"):
        own = [k for k, family in enumerate(families) if family == name]
        assert found["p_adjusted"][own].tolist() == pytest.approx(step_down(parts[:, own]))
        plain = found["p_value"][own]
        assert plain.tolist() == pytest.approx([step_down(parts[:, [k]])[0] for k in own])
        assert found["p_holm"][own].tolist() == pytest.approx(
            list(multipletests(plain, method="holm")[1])
        )
    assert (found["p_adjusted"] >= found["p_value"]).all()
    assert found["p_smallest"].tolist() == [2.0 ** (1 - n) for n in (parts != 0).sum(axis=0)]


def test_exact_p_values_are_those_of_scipy():
    parts = np.random.default_rng(6).normal(0.3, 1, (EXACT, 2))
    found = sign_flip_tests(parts, [0, 0], 10, ())["p_value"]
    expected = [
        permutation_test(
            (part,), np.sum, permutation_type="samples", n_resamples=2**EXACT + 1, vectorized=True
        ).pvalue
        for part in parts.T
    ]
    assert found.tolist() == pytest.approx(expected)


def test_drawn_flips_come_near_all_of_them_and_are_never_0():
    parts = np.random.default_rng(7).normal(0.4, 1, (EXACT, 5))
    exact = sign_flip_tests(parts, [0] * 5, 10, ())
    padded = np.concatenate([parts, np.zeros((1, 5))])  # one row more, which changes nothing
    drawn = sign_flip_tests(padded, [0] * 5, 20_000, (1, "flips"))
    assert drawn[["p_value", "p_adjusted"]].to_numpy() == pytest.approx(
        exact[["p_value", "p_adjusted"]].to_numpy(), abs=0.015
    )
    clear = sign_flip_tests(np.ones((40, 300)), [0] * 300, 999, (1, "flips"))
    assert clear["p_adjusted"].tolist() == [1 / 1000] * 300, "whatever the number of tests"
    assert clear["p_smallest"].tolist() == [1 / 1000] * 300
    assert (clear["p_holm"] > 0.05).all(), "which is why Holm's correction is not what tables show"


def test_the_family_of_a_test_is_all_that_its_p_value_depends_on():
    parts = np.random.default_rng(8).normal(0.2, 1, (30, 4))
    alone = sign_flip_tests(parts[:, :2], ["a", "a"], 500, (1,))
    beside = sign_flip_tests(parts, ["a", "a", "b", "b"], 500, (1,))
    assert beside[:2].equals(alone)


@pytest.mark.parametrize("rows", [0, 1])
def test_without_two_samples_nothing_is_told_apart(rows):
    found = sign_flip_tests(np.ones((rows, 2)), [0, 0], 10, ())
    assert found.to_numpy().tolist() == [[1.0] * 4] * 2
    assert sign_flip_tests(np.empty((3, 0)), [], 10, ()).empty
    equal = sign_flip_tests(np.zeros((4, 1)), [0], 10, ())
    assert equal.to_numpy().tolist() == [[1.0] * 4], "two methods with the same numbers"


def test_under_the_null_a_family_finds_something_in_5_percent():
    wrong = []
    for seed in range(400):
        generator = np.random.default_rng(seed)
        methods = generator.normal(size=(12, 1)) + generator.normal(size=(12, 6))
        pairs = [methods[:, a] - methods[:, b] for a, b in itertools.combinations(range(6), 2)]
        found = sign_flip_tests(np.stack(pairs, axis=1), [0] * 15, 10, ())
        wrong.append((found["p_adjusted"] < 0.05).any())
    assert 0.02 <= np.mean(wrong) <= 0.075  # 5 % ± 2.3 standard errors
