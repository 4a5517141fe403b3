"""Bootstrap and sign flips against direct implementations, SciPy, and enumeration."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, permutation_test, t

import pisoft
from flipping import step_down
from pisoft.config.jobs import ResamplingJob
from pisoft.seeds import keyed_generator
from pisoft.statistics.estimates import (
    EXACT_TEST,
    NUMBERS,
    Samples,
    estimate,
    estimate_rows,
    medians,
    paired_tests,
    sample_matrix,
    sign_flip_tests,
)
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.orders import ranks

NAN = np.nan
ADJUSTED = ["p_value", "p_adjusted"]


def frame(values, metric="m"):
    """Samples by (metric, method), of {method: values}."""
    table = pd.DataFrame({method: list(column) for method, column in values.items()}, dtype=float)
    return pd.concat({metric: table}, axis="columns", names=["metric", "method"])


def means(values, metric="m"):
    return Samples.of_means(frame(values, metric))


def ratios(numerators, denominators):
    top = frame({"x": numerators})
    return Samples(top, frame({"x": denominators}), top.isna().sum())


def drawing(resamples, seed=1):
    return ResamplingJob(seed=seed, resamples=resamples)


def rows_of(datasets, resamples=200):
    return estimate_rows(datasets, drawing(resamples)).set_index(["dataset", "metric", "method"])


def drawn_samples(n, resamples, dataset="d", seed=1):
    """The samples of each resample, in their documented stream."""
    return keyed_generator(seed, "bootstrap", dataset).integers(n, size=(resamples, n))


# Bootstrap --------------------------------------------------------------------------------------


def test_intervals_are_percentiles_of_resampled_means_widened_to_students_t():
    values = np.random.default_rng(1).gamma(2, size=13)
    row = rows_of({"d": means({"x": values})}, 1200).loc["d", "m", "x"]
    draws = values[drawn_samples(13, 1200)].mean(axis=1)  # more than one chunk
    factor = np.sqrt(13 / 12)
    tail = norm.sf(factor * t.ppf(0.975, 12))
    expected = [values.mean(), *np.quantile(draws, [tail, 1 - tail]), draws.std() * factor, 13, 0]
    assert row[NUMBERS].tolist() == pytest.approx(expected, rel=1e-12)


def simulated(shape):
    """Samples of 1000 repetitions by dataset, and the number that they estimate."""
    generator = np.random.default_rng(3)
    columns = pd.MultiIndex.from_product([["m"], range(1000)], names=["metric", "method"])

    def table(values):
        return pd.DataFrame(values, columns=columns)

    if shape == "ratio":
        bottom = generator.uniform(0.2, 0.9, (60, 1000))
        top = table(bottom * 0.4 + generator.normal(0, 0.1, bottom.shape))
        return {"d": Samples(top, table(bottom), top.isna().sum())}, 0.4
    if shape == "average":
        sizes = ((0.2, 0.1, 16), (0.6, 0.3, 30), (1.0, 0.2, 20))
        draws = [generator.normal(mean, spread, (n, 1000)) for mean, spread, n in sizes]
        return {str(n): Samples.of_means(table(v)) for n, v in enumerate(draws)}, 0.6
    draws = {
        "normal": generator.normal(0.5, 0.2, (16, 1000)),
        "skewed": generator.beta(2, 5, (50, 1000)),
    }
    return {"d": Samples.of_means(table(draws[shape]))}, {"normal": 0.5, "skewed": 2 / 7}[shape]


@pytest.mark.parametrize("shape", ["normal", "skewed", "ratio", "average"])
def test_intervals_cover_the_truth_in_95_percent(shape):
    datasets, truth = simulated(shape)
    rows = estimate_rows(datasets, drawing(2000)).query("dataset == @AVERAGE")
    assert 0.93 <= ((rows["low"] <= truth) & (truth <= rows["high"])).mean() <= 0.97


def test_all_columns_of_a_dataset_share_their_resamples_and_each_seed_has_others():
    values = np.random.default_rng(4).random(12)
    both = means({"a": values, "b": values + 1})
    first, again, other = (
        estimate({"d": both}, drawing(300, seed))["d"].replicates for seed in (1, 1, 2)
    )
    assert np.allclose(first["m", "b"] - first["m", "a"], 1)
    assert first.equals(again)
    assert not first.equals(other)


def test_a_ratio_of_sums_leaves_a_failed_sample_out_of_both_sums():
    samples = ratios([0.1, 0.4, NAN, 0.3], [0.2, 0.9, 5.0, 0.5])
    row = rows_of({"d": samples}).loc["d", "m", "x"]
    assert row["value"] == pytest.approx(0.8 / 1.6)
    assert row[["n", "n_failed"]].tolist() == [3, 1]
    assert samples.contributions.sum().tolist() == pytest.approx([0.5])


@settings(deadline=None)
@given(st.lists(st.floats(0, 9) | st.just(NAN), min_size=1, max_size=9), st.integers(0, 1_000_000))
def test_medians_of_counts_are_those_of_the_repeated_values(values, seed):
    values = np.array(values)
    counts = np.random.default_rng(seed).integers(0, 3, (5, values.size)).astype(float)
    repeated = [np.repeat(values, row.astype(int)) for row in counts]
    repeated = [row[np.isfinite(row)] for row in repeated]
    expected = [np.median(row) if row.size else NAN for row in repeated]
    assert medians(values, counts) == pytest.approx(expected, nan_ok=True)


def test_a_median_and_its_interval_are_of_the_resamples_of_the_means():
    values = np.array([3.0, NAN, 1.0, 8.0, 4.0])
    samples = means({"mean": values, "median": values})
    samples = Samples(samples.numerators, samples.denominators, samples.failed, [False, True])
    replicates = estimate({"d": samples}, drawing(700))["d"].replicates["m"]
    drawn = values[drawn_samples(5, 700)]
    expected = np.nanmedian(np.concatenate([values[None], drawn]), axis=1)
    assert replicates["median"].to_numpy() == pytest.approx(expected, nan_ok=True)
    mean = np.nanmean(np.concatenate([values[None], drawn]), axis=1)
    assert replicates["mean"].to_numpy() == pytest.approx(mean, nan_ok=True)


@pytest.mark.filterwarnings("error")
def test_one_sample_has_no_interval_and_none_has_no_value():
    rows = rows_of({"d": means({"one": [2.0, NAN], "none": [NAN, NAN]})})
    assert rows.loc[("d", "m", "one"), ["value", "n", "n_failed"]].tolist() == [2, 1, 1]
    assert rows.loc[("d", "m", "none"), ["n", "n_failed"]].tolist() == [0, 2]
    assert rows[["low", "high", "standard_error"]].isna().all(axis=None)
    assert rows["value"].isna().tolist() == [False, True] * 2
    empty = rows_of({"d": means({"x": []})})
    assert empty["value"].isna().all()


def test_an_average_weighs_datasets_equally_and_adds_their_samples():
    datasets = {"a": means({"x": [0.0, 0.2]}), "b": means({"x": [0.6] * 7 + [NAN]})}
    estimates = estimate(datasets, drawing(100))
    halves = [estimates[name].replicates / 2 for name in datasets]
    assert np.allclose(estimates[AVERAGE].replicates, sum(halves))
    row = rows_of(datasets).loc[AVERAGE, "m", "x"]
    assert row[["value", "n", "n_failed"]].tolist() == pytest.approx([0.35, 9, 1])


def test_an_average_is_over_the_datasets_that_have_the_metric_and_needs_all_of_these():
    both = pd.concat([frame({"x": [1.0, 3.0], "y": [4.0, 4.0]}), frame({"x": [5.0, 5.0]}, "other")],
                     axis="columns")  # fmt: skip
    datasets = {"a": Samples.of_means(both), "b": means({"x": [6.0, 8.0]})}
    rows = rows_of(datasets).loc[AVERAGE]
    assert rows.loc[("m", "x"), "value"] == 4.5
    assert np.isnan(rows.loc[("m", "y"), "value"]), "the other dataset has the metric, not y"
    assert rows.loc[("other", "x"), ["value", "n"]].tolist() == [5, 2]
    tests = paired_tests(datasets, drawing(100), ["metric"]).set_index(
        ["dataset", "metric", "method"]
    )
    assert (AVERAGE, "m", "y") not in tests.index
    assert tests.loc[AVERAGE, "other", "x"]["value"] == 5


def test_a_matrix_has_samples_and_columns_in_order_of_appearance_and_nan_without_a_row():
    rows = pd.DataFrame({
        "sample_id": ["b", "a", "b"], "metric": ["m"] * 3, "method": ["z", "z", "y"],
        "value": [1.0, 2.0, 3.0],
    })  # fmt: skip
    for given_rows in (rows, rows.astype({"method": "category", "sample_id": "category"})):
        matrix = sample_matrix(given_rows, ["metric", "method"])
        assert list(matrix.index) == ["b", "a"]
        assert list(matrix.columns) == [("m", "z"), ("m", "y")]
        assert matrix.to_numpy().tolist() == [[1, 3], [2, pytest.approx(NAN, nan_ok=True)]]


# Ranks ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=1, max_size=7), st.sampled_from(["highest", "lowest"]))
@settings(deadline=None)
def test_ranks_count_the_better_and_half_of_those_equal_but_for_rounding(numbers, best):
    sign = 1 if best == "highest" else -1
    expected = [
        1 + sum(sign * other > sign * number for other in numbers) + (numbers.count(number) - 1) / 2
        for number in numbers
    ]
    noise = np.linspace(-1e-14, 1e-14, len(numbers))
    assert ranks(np.array(numbers) / 3 + noise, best).tolist() == expected
    assert ranks(np.array([numbers, numbers], dtype=float), best).tolist() == [expected] * 2
    assert np.isnan(ranks(np.array([*numbers, NAN], dtype=float), best)).sum() == 1


# Permutation tests ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_few_samples_are_tested_by_every_sign_flip_within_their_family(seed):
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(9, 1))
    parts = 0.7 * shared + generator.exponential(size=(9, 6)) - 0.6
    parts[generator.random(parts.shape) < 0.1] = 0.0  # samples that only other pairs have
    families = np.array([0, 1, 0, 0, 1, 0])
    found = sign_flip_tests(parts, families, 10, ())
    for family in (0, 1):
        of_family = families == family
        assert found["p_adjusted"][of_family].tolist() == pytest.approx(
            step_down(parts[:, of_family])
        )
    plain = [step_down(parts[:, [column]])[0] for column in range(6)]
    assert found["p_value"].tolist() == pytest.approx(plain)
    assert found["p_smallest"].tolist() == [2.0 ** (1 - n) for n in (parts != 0).sum(axis=0)]


@pytest.mark.parametrize(("samples", "tried"), [(16, 2**15), (17, 1 + 10)])
def test_every_sign_flip_is_tried_up_to_16_samples(samples, tried):
    tests = sign_flip_tests(np.ones((samples, 1)), np.zeros(1), 10, ())
    assert tests["p_value"][0] == 1 / tried, "of the observed signs alone"


def test_exact_p_values_are_those_of_scipy():
    parts = np.random.default_rng(6).normal(0.3, 1, (EXACT_TEST, 2))
    found = sign_flip_tests(parts, np.zeros(2), 10, ())["p_value"]
    expected = [
        permutation_test(
            (part,), np.sum, permutation_type="samples", n_resamples=2**EXACT_TEST + 1,
            vectorized=True,
        ).pvalue
        for part in parts.T
    ]  # fmt: skip
    assert found.tolist() == pytest.approx(expected)


def test_drawn_flips_come_near_all_of_them_and_are_never_0():
    parts = np.random.default_rng(7).normal(0.4, 1, (EXACT_TEST, 5))
    exact = sign_flip_tests(parts, np.zeros(5), 10, ())
    padded = np.concatenate([parts, np.zeros((1, 5))])  # one row more, which changes nothing
    drawn = sign_flip_tests(padded, np.zeros(5), 20_000, (1, "flips"))
    assert drawn[ADJUSTED].to_numpy() == pytest.approx(exact[ADJUSTED].to_numpy(), abs=0.015)
    clear = sign_flip_tests(np.ones((40, 300)), np.zeros(300), 999, (1, "flips"))
    assert (clear == 1 / 1000).all(axis=None), "whatever the number of tests"


def test_a_p_value_depends_on_its_family_alone():
    parts = np.random.default_rng(8).normal(0.2, 1, (30, 4))
    alone = sign_flip_tests(parts[:, :2], np.zeros(2), 500, (1,))
    beside = sign_flip_tests(parts, np.array([0, 0, 1, 1]), 500, (1,))
    assert beside[:2].equals(alone)


@pytest.mark.parametrize("n", [0, 1])
def test_without_two_samples_nothing_is_significant(n):
    found = sign_flip_tests(np.ones((n, 2)), np.zeros(2), 10, ())
    assert (found == 1).all(axis=None)
    assert sign_flip_tests(np.empty((3, 0)), np.zeros(0), 10, ()).empty


def test_a_difference_of_0_but_for_rounding_is_not_significant():
    parts = np.random.default_rng(9).normal(size=(10, 3))
    parts -= parts.mean(axis=0)
    assert sign_flip_tests(parts, np.arange(3), 10, ())["p_value"].tolist() == [1, 1, 1]
    assert (sign_flip_tests(np.zeros((4, 1)), np.zeros(1), 10, ()) == 1).all(axis=None)


def test_under_the_null_a_family_finds_something_in_5_percent():
    wrong = []
    for seed in range(400):
        generator = np.random.default_rng(seed)
        methods = generator.normal(size=(12, 1)) + generator.normal(size=(12, 6))
        pairs = [methods[:, a] - methods[:, b] for a, b in itertools.combinations(range(6), 2)]
        found = sign_flip_tests(np.stack(pairs, axis=1), np.zeros(15), 10, ())
        wrong.append((found["p_adjusted"] < 0.05).any())
    assert 0.02 <= np.mean(wrong) <= 0.075  # 5 % ± 2.3 standard errors


def test_an_average_is_tested_with_the_samples_of_every_dataset_at_its_weight():
    generator = np.random.default_rng(10)
    datasets = {name: means({"x": generator.random(n)}) for name, n in (("a", 5), ("b", 8))}
    row = paired_tests(datasets, drawing(10), ["metric"]).query("dataset == @AVERAGE").iloc[0]
    parts = np.concatenate([s.numerators / len(s.numerators) / 2 for s in datasets.values()])
    assert row[["value", "n"]].tolist() == pytest.approx([parts.sum(), 13])
    assert row["p_value"] == pytest.approx(step_down(parts)[0])


def test_columns_without_a_value_and_parts_that_are_not_tested_have_no_p_value():
    parts = {"own": frame({"x": [1.0, 2.0], "y": [NAN, NAN]}), "gain": frame({"x": [1.0, 3.0]})}
    samples = {"d": Samples.of_means(pd.concat(parts, axis="columns", names=["part"]))}
    for tested, expected in (
        (("own", "gain"), [True, False, True]),
        (["gain"], [False, False, True]),
    ):
        rows = estimate_rows(samples, drawing(50), tested)
        assert rows["p_value"].notna().tolist() == expected * 2
    assert estimate_rows(samples, drawing(50), ["none"])["p_value"].isna().all()


# Threads ----------------------------------------------------------------------------------------

# Equal columns, of whose resamples the last bits depend on the number of threads; and differences
# of columns with the same numbers in another order.
TIED = """
import json
import numpy as np, pandas as pd
from pisoft.config.jobs import ResamplingJob
from pisoft.statistics.estimates import Samples, estimate, estimate_rows, paired_tests
from pisoft.statistics.orders import ranks
settings = ResamplingJob(seed=1, resamples=1000)
generator = np.random.default_rng(1)
tied = np.tile(generator.random((300, 22)).round(2), (1, 7))
columns = pd.MultiIndex.from_product([["m"], range(154)], names=["metric", "method"])
datasets = {name: Samples.of_means(pd.DataFrame(tied, columns=columns)) for name in ("a", "b")}
replicates = estimate(datasets, settings)["average"].replicates.to_numpy()
differences = pd.DataFrame(tied - generator.permuted(tied, axis=0), columns=columns)
tests = paired_tests({"a": Samples.of_means(differences)}, settings, ["metric"])
rows = estimate_rows(datasets, settings)
numbers = [
    ranks(replicates, "highest").mean(axis=0),
    tests[["p_value", "p_adjusted", "p_smallest"]].to_numpy().ravel(),
    rows[["value", "low", "high", "standard_error"]].to_numpy().ravel(),
]
print(json.dumps(np.concatenate(numbers).tolist()))
"""


def test_tied_methods_have_the_same_ranks_and_p_values_on_any_number_of_threads():
    found = []
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        scripts = str(Path(pisoft.__file__).parents[1])
        environment = {**os.environ, **dict.fromkeys(names, threads), "PYTHONPATH": scripts}
        finished = subprocess.run(
            [sys.executable, "-c", TIED],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(finished.stdout))
    assert found[0][:22] == pytest.approx(found[0][22:44], rel=0, abs=1e-12)
    assert (np.array(found[0])[154 : 154 * 7] == 1).mean() > 0.5, "nothing differs but by rounding"
    assert found[0] == pytest.approx(found[1], rel=0, abs=1e-12)
