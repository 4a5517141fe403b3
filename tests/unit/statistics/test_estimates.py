"""Estimates, their intervals and tests against direct implementations and simulation."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, skew, t, ttest_ind
from statsmodels.stats.proportion import proportion_confint
from threadpoolctl import threadpool_limits

from helpers.sign_flips import step_down
from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.seeds import keyed_generator
from pisoft.statistics.estimates import (
    P_VALUES,
    estimate,
    estimate_cells,
    estimate_rows,
    medians,
    paired_tests,
)
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.orders import ranks
from pisoft.statistics.samples import Samples, sample_matrix

NAN = np.nan


def frame(values, metric="m"):
    """Samples by (metric, method), of {method: values}."""
    table = pd.DataFrame({method: list(column) for method, column in values.items()}, dtype=float)
    return pd.concat({metric: table}, axis="columns", names=["metric", "method"])


def means(values, metric="m"):
    return Samples.for_means(frame(values, metric))


def drawing(resamples, seed=1):
    return ResamplingJob(seed=seed, resamples=resamples)


def rows_of(datasets, resamples=200):
    return estimate_rows(datasets, drawing(resamples)).set_index(["dataset", "metric", "method"])


def row_of(samples, resamples=200):
    return rows_of({"d": samples}, resamples).loc["d", "m", "x"]


def average_tests(datasets, resamples):
    tests = paired_tests(datasets, drawing(resamples), ["metric"])
    return tests[tests["dataset"] == AVERAGE]


def drawn_samples(n, resamples, dataset="d", seed=1):
    """The samples of each resample, in their documented stream."""
    return keyed_generator(seed, "bootstrap", dataset).integers(n, size=(resamples, n))


def test_median_intervals_are_percentiles_widened_to_students_t():
    values = np.random.default_rng(1).gamma(2, size=13)
    row = row_of(replace(means({"x": values}), medians=[True]), 1200)
    draws = np.median(values[drawn_samples(13, 1200)], axis=1)  # more than one chunk
    factor = np.sqrt(13 / 12)
    tail = norm.sf(factor * t.ppf(0.975, 12))
    expected = [np.median(values), *np.quantile(draws, [tail, 1 - tail]), draws.std() * factor]
    numbers = row[["value", "low", "high", "standard_error"]].tolist()
    assert numbers == pytest.approx(expected, rel=1e-12)
    assert np.isnan(row["skewness"])


def test_mean_intervals_invert_halls_t():
    values = np.random.default_rng(1).gamma(2, size=13)
    row = row_of(means({"x": values}), 1200)
    draws = values[drawn_samples(13, 1200)].mean(axis=1)
    assert row["standard_error"] == pytest.approx(draws.std() * np.sqrt(13 / 12), rel=1e-12)
    g = skew(values) / np.sqrt(13)
    ends = (values.mean() - row[["high", "low"]].astype(float)) / (values.std() / np.sqrt(13))
    adjusted = ends + g * (2 * ends**2 + 1) / 6 + g**2 * ends**3 / 27
    expected = np.sqrt(13 / 12) * t.ppf([0.025, 0.975], 12)
    assert adjusted.tolist() == pytest.approx(list(expected))
    assert row["skewness"] == pytest.approx(g)
    assert row[["n", "n_failed"]].tolist() == [13, 0]


def test_share_intervals_are_wilsons_widened_to_students_t():
    values = {"x": [1.0] * 3 + [0.0] * 17}
    rows = rows_of({"d": means(values, "gini")})
    level = 2 * norm.sf(np.sqrt(20 / 19) * t.ppf(0.975, 19))
    expected = proportion_confint(3, 20, level, method="wilson")
    assert rows.loc["d"].iloc[0][["low", "high"]].tolist() == pytest.approx(expected)


def test_ratio_intervals_cover_the_truth_in_95_percent():
    """Denominators affect their width: without the covariance, coverage is 91 %."""
    generator = np.random.default_rng(3)
    denominators = generator.lognormal(0, 0.8, (12, 1000))
    columns = generator.gamma(1, size=denominators.shape), denominators
    top, bottom = (frame(dict(enumerate(values.T))) for values in columns)
    rows = rows_of({"d": Samples(top, bottom, top.isna().sum())}, 2000).loc["d"]
    truth = np.exp(-0.32)
    assert 0.93 <= ((rows["low"] <= truth) & (truth <= rows["high"])).mean() <= 0.97


def test_ratios_of_sums_exclude_failed_samples_from_both_sums():
    top, bottom = frame({"x": [0.1, 0.5, 0.2, 0.9, NAN]}), frame({"x": [1.0, 2.0, 1.5, 4.0, 3.0]})
    samples = Samples(top, bottom, top.isna().sum())
    numbers = row_of(samples)[["value", "n", "n_failed"]].tolist()
    assert numbers == pytest.approx([0.2, 4, 1])
    assert samples.contributions.sum().tolist() == pytest.approx([0.2])
    expected = (np.array([0.1, 0.5, 0.2, 0.9, 0]) - 0.2 * np.array([1, 2, 1.5, 4, 0])) / 8.5
    assert samples.deviations.to_numpy().ravel() == pytest.approx(expected)


@settings(deadline=None)
@given(st.lists(st.floats(0, 9) | st.just(NAN), min_size=1, max_size=9), st.integers(0, 1_000_000))
def test_weighted_medians_equal_medians_of_repeated_values(values, seed):
    values = np.array(values)
    counts = np.random.default_rng(seed).integers(0, 3, (5, values.size)).astype(float)
    repeated = [np.repeat(values, row.astype(int)) for row in counts]
    repeated = [row[np.isfinite(row)] for row in repeated]
    expected = [np.median(row) if row.size else NAN for row in repeated]
    assert medians(values, counts) == pytest.approx(expected, nan_ok=True)


@pytest.mark.filterwarnings("error")
def test_a_single_sample_has_no_interval_and_none_has_no_value():
    rows = rows_of({"d": means({"one": [2.0, NAN], "none": [NAN, NAN], "two": [2.0, 4.0]})})
    ends = rows.loc[("d", "m", "two"), ["low", "high"]].tolist()
    assert ends == pytest.approx(t.interval(0.95, 1, 3, 1))
    rows = rows.drop(index="two", level="method")
    assert rows.loc[("d", "m", "one"), ["value", "n", "n_failed"]].tolist() == [2, 1, 1]
    assert rows.loc[("d", "m", "none"), ["n", "n_failed"]].tolist() == [0, 2]
    assert rows[["low", "high", "standard_error"]].isna().all(axis=None)
    assert rows["value"].isna().tolist() == [False, True] * 2
    empty = rows_of({"d": means({"x": []})})
    assert empty["value"].isna().all()


def test_averages_need_all_datasets_with_the_metric():
    both = pd.concat([frame({"x": [1.0, 3.0], "y": [4.0, 4.0]}), frame({"x": [3.0, 7.0]}, "other")],
                     axis="columns")  # fmt: skip
    datasets = {"a": Samples.for_means(both), "b": means({"x": [6.0, 8.0]})}
    rows = rows_of(datasets)
    assert rows.loc[(AVERAGE, "m", "x"), "value"] == 4.5
    assert np.isnan(rows.loc[(AVERAGE, "m", "y"), "value"]), "b has the metric, not y"
    other_rows = (rows.loc[name, "other", "x"].tolist() for name in (AVERAGE, "a"))
    assert next(other_rows) == pytest.approx(next(other_rows), nan_ok=True)
    tests = paired_tests(datasets, drawing(100), ["metric"])
    tests = tests.set_index(["dataset", "metric", "method"])
    assert (AVERAGE, "m", "y") not in tests.index
    assert tests.loc[(AVERAGE, "other", "x"), ["value", "n"]].tolist() == [5, 2]
    assert not [*rows["n_clusters"].dropna(), *tests["n_clusters"].dropna()], "each separately"


@pytest.mark.parametrize("type_of_texts", ["object", "category"])
def test_a_matrix_keeps_row_order_and_fills_gaps_with_nan(type_of_texts):
    texts = pd.DataFrame({"sample_id": ["b", "a", "b"], "metric": "m", "method": ["z", "z", "y"]})
    rows = texts.astype(type_of_texts).assign(value=[1.0, 2.0, 3.0])
    matrix = sample_matrix(rows, ["metric", "method"])
    assert list(matrix.index) == ["b", "a"]
    assert list(matrix.columns) == [("m", "z"), ("m", "y")]
    assert matrix.to_numpy().tolist() == [[1, 3], [2, pytest.approx(NAN, nan_ok=True)]]


def test_averages_weigh_datasets_equally_and_use_all_samples():
    generator = np.random.default_rng(10)
    datasets = {name: means({"x": [*generator.random(n), NAN]}) for name, n in (("a", 5), ("b", 8))}
    row = average_tests(datasets, 10).iloc[0]
    values = [samples.numerators.dropna() for samples in datasets.values()]
    parts = np.concatenate([dataset_values / len(dataset_values) / 2 for dataset_values in values])
    assert row[["value", "n"]].tolist() == pytest.approx([parts.sum(), 13])
    assert row["p_sign_flip"] == pytest.approx(step_down(parts)[0])
    estimates = estimate(datasets, drawing(100))
    halves = [estimates[name].replicates / 2 for name in datasets]
    assert np.allclose(estimates[AVERAGE].replicates, sum(halves))
    row = rows_of(datasets).loc[AVERAGE, "m", "x"]
    assert row[["value", "n", "n_failed"]].tolist() == pytest.approx([parts.sum(), 13, 2])


def test_averages_are_as_uncertain_as_their_smallest_dataset():
    """Without skewness, intervals are Welch's; pooled degrees of freedom cover 90 % here."""
    values = {"few": np.array([-3.0, -1, 0, 1, 3]), "many": 5 + np.linspace(-1, 1, 60)}
    row = rows_of({name: means({"x": column}) for name, column in values.items()})
    welch = ttest_ind(values["few"], -values["many"], equal_var=False).confidence_interval()
    ends = row.loc[(AVERAGE, "m", "x"), ["low", "high"]].tolist()
    assert ends == pytest.approx([welch.low / 2, welch.high / 2])


def test_averages_of_extreme_shares_have_an_interval():
    parts = {"none": [0.0] * 24, "all": [1.0] * 24, "half": [0.0, 1] * 12}
    datasets = {name: means({"x": column}, "not_flipped") for name, column in parts.items()}
    rows = rows_of(datasets).xs("x", level="method").droplevel("metric")
    below, above = ((rows[end] - rows["value"])[[*parts]] for end in ("low", "high"))
    expected = [0.5 - np.sqrt((below**2).sum()) / 3, 0.5 + np.sqrt((above**2).sum()) / 3]
    assert rows.loc[AVERAGE, ["low", "high"]].tolist() == pytest.approx(expected)


def test_equivalence_needs_a_margin_and_is_corrected_within_families():
    generator = np.random.default_rng(12)
    samples = {"d": means({name: generator.normal(0.02, 0.1, 40) for name in "abc"})}
    assert paired_tests(samples, drawing(100), ["metric"])["p_equivalence"].isna().all()
    together, alone = (
        paired_tests(samples, drawing(100), family, 0.06)["p_equivalence"]
        for family in (["metric"], ["metric", "method"])
    )
    ordered = alone[:3].sort_values()
    expected = np.minimum(np.maximum.accumulate(ordered * [3, 2, 1]), 1)
    assert together[ordered.index].tolist() == pytest.approx(expected.tolist())


def test_a_few_equal_samples_are_not_equivalent():
    agreeing = {name: means({"x": np.zeros(n)}) for name, n in (("a", 3), ("b", 4))}
    rows = paired_tests(agreeing, drawing(100), ["metric"], 0.1).set_index("dataset")
    assert rows["p_equivalence"].to_dict() == {"a": 2**-2, "b": 2**-3, AVERAGE: 2**-6}


def test_missing_columns_and_untested_parts_have_no_p_value():
    parts = {"own": frame({"x": [1.0, 2.0], "y": [NAN, NAN]}), "gain": frame({"x": [1.0, 3.0]})}
    cells = {("m", "d"): pd.concat(parts, axis="columns", names=["part"])}
    for tested in (["own", "gain"], ["gain"], ["none"]):
        (rows,) = estimate_cells(cells, drawing(50), {}, ["model"], tested)
        expected = ["own" in tested, False, "gain" in tested]
        assert rows["p_value"].notna().tolist() == expected * 2
        assert set(rows["model"]) == {"m"}


def test_equivalence_of_averages_uses_the_errors_of_all_datasets():
    values = {"a": np.array([-3.0, -1, 0, 1, 3]) / 9, "b": 0.1 + np.array([-2.0, -1, 1, 2]) / 9}
    datasets = {name: means({"x": column}) for name, column in values.items()}
    rows = paired_tests(datasets, drawing(100), ["metric"], 0.2).set_index("dataset")
    welch = ttest_ind(values["a"], 0.4 - values["b"], equal_var=False, alternative="less")
    assert rows.loc[AVERAGE, "p_equivalence"] == pytest.approx(welch.pvalue)
    other = (0.2 - 0.1) / (values["b"].std(ddof=1) / 2)
    assert rows.loc["b", "p_equivalence"] == pytest.approx(t.sf(other, 3))


def numbers_of_ties(threads):
    """Ranks of equal columns, tests of columns that sum to 0 but for rounding, and estimates."""
    generator = np.random.default_rng(1)
    tied = np.tile(generator.random((300, 22)).round(2), (1, 7))
    differences = tied - generator.permuted(tied, axis=0)
    datasets = {name: means(dict(enumerate(tied.T))) for name in ("a", "b")}
    with threadpool_limits(threads):
        replicates = estimate(datasets, drawing(1000))[AVERAGE].replicates.to_numpy()
        tests = average_tests({"d": means(dict(enumerate(differences.T)))}, 1000)
        rows = rows_of(datasets, 1000)
    columns = ["value", "low", "high", "standard_error"]
    mean_ranks = ranks(replicates, "highest").mean(axis=0)
    return [mean_ranks, tests[[*P_VALUES, "detectable"]].to_numpy(), rows[columns].to_numpy()]


def test_ranks_and_p_values_of_ties_do_not_depend_on_threads():
    one, two = numbers_of_ties(1), numbers_of_ties(2)
    assert one[0][:22] == pytest.approx(one[0][22:44], rel=0, abs=1e-12)
    assert (one[1] == 1).mean() > 0.5, "differences are rounding only"
    for before, after in zip(one, two, strict=True):
        assert before == pytest.approx(after, rel=0, abs=1e-12)
