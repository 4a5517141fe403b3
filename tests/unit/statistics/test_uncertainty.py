"""Intervals, ranks and tests against references, on simulated and on hand-made samples."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap, kstest, permutation_test, wilcoxon
from statsmodels.stats.multitest import multipletests

from estimating import estimated
from pisoft.statistics.bootstrap import (
    Resampled,
    average,
    intervals,
    ranks,
    resample,
    resampled_medians,
)
from pisoft.statistics.comparisons import compare
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.values import SampleValues

RESAMPLES = 10_000


def values_of(columns, metric="auc_pi_soft_nc", protocol="dynamic"):
    """Values of one dataset: `columns` = {method: values}."""
    keys = {"protocol": protocol, "model": "llama", "metric": metric, "n_failed": 0}
    table = pd.DataFrame([keys | {"method": method} for method in columns])
    return SampleValues(np.stack(list(columns.values()), axis=1).astype(float), table)


def rows_of(values, dataset="sst2", metric="auc_pi_soft_nc", status="ok"):
    """Rows of `soft_samples`: `values` = {method: values by sample}; None failed."""
    return [
        {
            "protocol": "dynamic", "model": "llama", "method": method, "dataset": dataset,
            "sample_id": f"s{number}", "metric": metric, "value": value,
            "status": "nonfinite_attribution" if value is None else status,
        }
        for method, column in values.items()
        for number, value in enumerate(column)
    ]  # fmt: skip


def samples_of(values, dataset="sst2"):
    """Rows of one metric with what every file holds beside it."""
    nothing = {m: [None if v is None else 0.0 for v in column] for m, column in values.items()}
    beside = ("monte_carlo_nc", "numerical")
    return rows_of(values, dataset) + [
        row for metric in beside for row in rows_of(nothing, dataset, metric)
    ]


def cell(table, **where):
    for column, value in where.items():
        table = table[table[column] == value]
    return table


# Intervals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "truth", "n"),
    [
        (lambda g, n: g.normal(0.5, 0.2, n), 0.5, 16),
        (lambda g, n: g.normal(0.5, 0.2, n), 0.5, 100),
        (lambda g, n: g.beta(2, 5, n), 2 / 7, 50),
    ],
    ids=["16 normal", "100 normal", "50 skewed"],
)
def test_intervals_of_a_mean_cover_95_percent(draw, truth, n):
    generator = np.random.default_rng(2)
    samples = np.stack([draw(generator, n) for _ in range(1000)], axis=1)  # a column a repetition
    given = values_of({f"m{k}": samples[:, k] for k in range(1000)})
    _, low, high = intervals(resample(given, 1, "sst2", 2000))
    assert 0.93 <= ((low <= truth) & (truth <= high)).mean() <= 0.97


def test_intervals_of_an_average_over_datasets_cover_95_percent():
    generator = np.random.default_rng(3)
    parts = []
    for number, (mean, spread, n) in enumerate([(0.2, 0.1, 16), (0.6, 0.3, 30), (1.0, 0.2, 20)]):
        samples = generator.normal(mean, spread, (n, 1000))
        given = values_of({f"m{k}": samples[:, k] for k in range(1000)})
        parts.append(resample(given, 1, f"data {number}", 2000))
    _, low, high = intervals(average(parts))
    assert 0.93 <= ((low <= 0.6) & (high >= 0.6)).mean() <= 0.97


def test_intervals_of_a_ratio_of_means_cover_95_percent():
    generator = np.random.default_rng(4)
    bottom = generator.uniform(0.2, 0.9, (60, 1000))
    top = bottom * 0.4 + generator.normal(0, 0.1, bottom.shape)
    keys = [
        {"protocol": "dynamic", "model": "llama", "method": f"m{k}", "n_failed": 0, "metric": name}
        for name in ("auc_numerator_nc", "h0")
        for k in range(1000)
    ]
    given = SampleValues(np.concatenate([top, bottom], axis=1), pd.DataFrame(keys))
    resampled = resample(given, 1, "sst2", 2000)
    _, low, high = intervals(resampled)
    chosen = (resampled.columns["metric"] == "ratio_auc_pi_soft_nc").to_numpy()
    assert chosen.sum() == 1000
    assert 0.93 <= ((low <= 0.4) & (high >= 0.4))[chosen].mean() <= 0.97


def test_intervals_of_a_median_cover_95_percent():
    generator = np.random.default_rng(5)
    covered = []
    for repetition in range(1000):
        ordered = np.sort(generator.exponential(size=61))
        draws = resampled_medians(ordered, np.random.default_rng(repetition), 2000)
        columns = pd.DataFrame({"n": [61], "datasets": [1], "fewest": [61]})
        _, low, high = intervals(Resampled(columns, draws[:, None]))[:, 0]
        covered.append(low <= np.log(2) <= high)
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_medians_of_resamples_are_distributed_as_by_resampling(n):
    ordered = np.sort(np.random.default_rng(6).random(n))
    drawn = np.random.default_rng(7).choice(ordered, size=(200_000, n))
    expected = np.median(drawn, axis=1)
    found = resampled_medians(ordered, np.random.default_rng(8), 200_000)
    for value in np.unique(expected):
        share = np.isclose(expected, value).mean()
        assert np.isclose(found, value).mean() == pytest.approx(share, abs=0.006)
    assert set(found.round(12)) <= set(expected.round(12)) | {
        ((a + b) / 2).round(12) for a, b in itertools.product(ordered, ordered)
    }


def test_resampled_means_agree_with_scipys_bootstrap():
    data = np.random.default_rng(9).gamma(2, size=40)
    resampled = resample(values_of({"mine": data}), 1, "sst2", RESAMPLES)
    place = int(np.flatnonzero(resampled.columns["metric"] == "auc_pi_soft_nc")[0])
    reference = bootstrap((data,), np.mean, n_resamples=RESAMPLES, rng=np.random.default_rng(1))
    assert resampled.columns["value"][place] == pytest.approx(data.mean())
    assert kstest(resampled.draws[:, place], reference.bootstrap_distribution).pvalue > 1e-3


def test_the_same_samples_are_drawn_for_every_method_and_every_time():
    data = np.random.default_rng(10).random(12)
    first = resample(values_of({"a": data, "b": data + 1}), 1, "sst2", 300)
    again = resample(values_of({"a": data, "b": data + 1}), 1, "sst2", 300)
    other = resample(values_of({"a": data, "b": data + 1}), 2, "sst2", 300)
    means = first.draws[:, (first.columns["metric"] == "auc_pi_soft_nc").to_numpy()]
    assert np.allclose(means[:, 1] - means[:, 0], 1)
    assert np.array_equal(first.draws, again.draws)
    assert not np.array_equal(first.draws, other.draws)


def test_failed_samples_are_in_no_resample():
    data = np.array([1.0, 2.0, np.nan, 4.0])
    draws = resample(values_of({"a": data}), 1, "sst2", 500).draws[:, 0]
    assert np.nanmin(draws) >= 1
    assert np.nanmax(draws) <= 4
    assert np.nanmean(draws) == pytest.approx(7 / 3, abs=0.1)


def test_one_sample_and_none_have_no_interval():
    found = estimated(samples_of({"one": [0.5], "none": [None]})).statistics
    one = cell(found, metric="auc_pi_soft_nc", method="one", dataset="sst2").iloc[0]
    assert (one["value"], one["n"]) == (0.5, 1)
    assert np.isnan(one[["low", "high", "standard_error"]].astype(float)).all()
    none = cell(found, metric="auc_pi_soft_nc", method="none", dataset="sst2").iloc[0]
    assert np.isnan(none["value"])
    assert (none["n"], none["n_failed"]) == (0, 1)
    assert np.isnan(none["rank"])


# Ranks ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=1, max_size=7), st.sampled_from(["highest", "lowest"]))
@settings(deadline=None)
def test_ranks_count_the_better_and_half_of_the_equal(numbers, best):
    sign = 1 if best == "highest" else -1
    expected = [
        1 + sum(sign * other > sign * own for other in numbers) + (numbers.count(own) - 1) / 2
        for own in numbers
    ]
    assert ranks(np.array(numbers, dtype=float), best).tolist() == expected


def test_ranks_of_resamples_of_a_clear_order_are_certain():
    noise = np.random.default_rng(11).normal(0, 0.01, 30)
    found = estimated(
        samples_of({"low": noise, "high": noise + 1, "middle": noise + 0.5})
    ).statistics
    found = cell(found, metric="auc_pi_soft_nc", dataset="sst2").set_index("method")
    assert found["rank"].to_dict() == {"low": 3, "high": 1, "middle": 2}
    assert (found["rank_low"] == found["rank"]).all()
    assert (found["rank_high"] == found["rank"]).all()
    assert found["best_share"].to_dict() == {"low": 0, "high": 1, "middle": 0}
    assert (found["best"] == "high").all()


def test_equal_methods_share_ranks_and_are_never_told_apart():
    data = np.random.default_rng(12).random(20)
    found = estimated(samples_of({"a": data, "b": data, "c": data - 0.5}))
    table = cell(found.statistics, metric="auc_pi_soft_nc", dataset="sst2").set_index("method")
    assert table["rank"].tolist() == [1.5, 1.5, 3]
    assert table["best_share"].tolist() == [1, 1, 0]
    assert table.loc["b", "p_value"] == 1
    assert table.loc["c", "p_value"] < 0.05


def test_insertion_is_best_where_lowest():
    rows = [
        {
            "model": "llama", "method": method, "dataset": "sst2", "sample_id": f"s{number}",
            "metric": metric, "value": value + number / 100, "status": "ok", "reason": None,
        }
        for method, value in (("a", 0.1), ("b", 0.9))
        for number in range(8)
        for metric in ("deletion_auc", "insertion_auc")
    ]  # fmt: skip
    found = estimated(rows, "ranking_samples").statistics
    assert found["protocol"].isna().all()
    assert set(cell(found, metric="insertion_auc")["best"]) == {"a"}
    assert set(cell(found, metric="deletion_auc")["best"]) == {"b"}


# Paired tests ---------------------------------------------------------------------------------


def compared(columns, flips=RESAMPLES):
    table = compare({"sst2": values_of(columns)}, "average", 1, flips)
    return cell(table, dataset="sst2").set_index(["method", "other"])


def test_p_values_of_few_samples_are_exact():
    generator = np.random.default_rng(13)
    a, b = generator.random(9), generator.random(9)
    found = compared({"a": a, "b": b}).loc["a", "b"]
    flips = np.array(list(itertools.product([1, -1], repeat=9)))
    sums = flips @ (a - b) / 9
    tails = [(sums <= (a - b).mean() + 1e-12).mean(), (sums >= (a - b).mean() - 1e-12).mean()]
    assert found["p_value"] == pytest.approx(min(1, 2 * min(tails)))
    assert found["difference"] == pytest.approx((a - b).mean())


def test_p_values_agree_with_scipy_on_one_pair_and_with_wilcoxon_in_size():
    generator = np.random.default_rng(14)
    a = generator.normal(0.1, 0.3, 60)
    b = generator.normal(0.0, 0.3, 60)
    found = compared({"a": a, "b": b}).loc["a", "b"]["p_value"]
    reference = permutation_test(
        (a - b,), lambda d, axis: d.mean(axis), permutation_type="samples", vectorized=True,
        n_resamples=RESAMPLES, rng=np.random.default_rng(1), batch=500,
    )  # fmt: skip
    assert found == pytest.approx(reference.pvalue, abs=0.02)
    assert abs(found - wilcoxon(a, b).pvalue) < 0.1


def test_under_the_null_a_pair_is_told_apart_in_5_percent():
    generator = np.random.default_rng(15)
    shared = generator.normal(size=(25, 1))
    columns = shared + generator.normal(size=(25, 60))  # paired by sample, no method better
    found = compared({f"m{k}": columns[:, k] for k in range(60)}, flips=2000)
    disjoint = [(f"m{k}", f"m{k + 1}") for k in range(0, 60, 2)]
    assert 0.03 <= (found["p_value"] < 0.05).mean() <= 0.07  # 1770 pairs
    assert (found.loc[disjoint, "p_value"] < 0.05).sum() <= 5


def test_pairs_with_the_control_are_a_family_of_their_own():
    generator = np.random.default_rng(16)
    columns = {f"m{k}": generator.normal(k / 5, 1, 30) for k in range(4)}
    columns["random"] = generator.normal(0, 1, 30)
    found = compared(columns)
    assert len(found) == 10
    control = found.index.get_level_values("other") == "random"
    assert control.sum() == 4
    for own in (found[control], found[~control]):
        expected = multipletests(own["p_value"], method="holm")[1]
        assert own["p_holm"].to_numpy() == pytest.approx(expected)
    without = compared({name: own for name, own in columns.items() if name != "random"})
    assert found[~control]["p_adjusted"].equals(without["p_adjusted"])


def test_only_common_samples_are_compared():
    a = np.array([1.0, 2.0, np.nan, 4.0, np.nan])
    b = np.array([0.5, np.nan, 3.0, 1.0, np.nan])
    c = np.array([np.nan, np.nan, 1.0, np.nan, 1.0])
    found = compared({"a": a, "b": b, "c": c})
    assert found.loc[("a", "b"), "difference"] == pytest.approx((0.5 + 3) / 2)
    assert found.loc[("a", "b"), "n"] == 2
    assert ("a", "c") not in found.index  # no common sample


def test_a_single_common_sample_tells_nothing():
    assert compared({"a": [5.0], "b": [0.0]}).loc[("a", "b"), "p_value"] == 1


def test_the_average_is_tested_with_each_dataset_weighing_the_same():
    generator = np.random.default_rng(17)
    data = {name: generator.random((n, 2)) for name, n in (("x", 5), ("y", 8))}
    given = {name: values_of({"a": v[:, 0], "b": v[:, 1]}) for name, v in data.items()}
    found = cell(compare(given, "average", 1, RESAMPLES), dataset="average").iloc[0]
    parts = np.concatenate([(v[:, 0] - v[:, 1]) / len(v) / 2 for v in data.values()])
    flips = np.array(list(itertools.product([1, -1], repeat=13))) @ parts
    tails = [(flips <= parts.sum() + 1e-12).mean(), (flips >= parts.sum() - 1e-12).mean()]
    assert found["difference"] == pytest.approx(parts.sum())
    assert found["p_value"] == pytest.approx(min(1, 2 * min(tails)))
    assert found["n"] == 13


def test_a_pair_that_lacks_a_dataset_has_no_test_of_the_average():
    rows = samples_of({"a": [1.0, 2.0], "b": [2.0, 4.0]}) + samples_of({"a": [1.0, 2.0]}, "imdb")
    found = estimated(rows)
    assert cell(found.comparisons, dataset="average").empty
    table = cell(found.statistics, dataset="average", metric="auc_pi_soft_nc").set_index("method")
    assert table["value"].to_dict() == {"a": 1.5, "b": pytest.approx(np.nan, nan_ok=True)}


# All together ---------------------------------------------------------------------------------


def test_ratios_are_of_means_over_the_samples_that_count():
    top, bottom = [0.1, 0.4, None, 0.3], [0.2, 0.9, None, 0.5]
    rows = rows_of({"a": top}, metric="auc_numerator_nc") + rows_of({"a": bottom}, metric="h0")
    found = estimated(rows).statistics
    row = cell(found, metric="ratio_auc_pi_soft_nc", dataset="sst2").iloc[0]
    assert row["value"] == pytest.approx(0.8 / 1.6)
    assert (row["n"], row["n_failed"]) == (3, 1)


def test_averages_weigh_datasets_equally_and_add_their_samples():
    rows = samples_of({"a": [0.0, 0.2]}) + samples_of({"a": [0.6] * 7 + [None]}, "imdb")
    found = estimated(rows).statistics
    row = cell(found, metric="auc_pi_soft_nc", dataset="average").iloc[0]
    assert row["value"] == pytest.approx((0.1 + 0.6) / 2)
    assert (row["n"], row["n_failed"]) == (9, 1)


def test_variances_add_up_to_the_total():
    generator = np.random.default_rng(18)
    rows = [
        row
        for metric, scale in (
            ("auc_pi_soft_ns_unclamped", 1), ("auc_pi_soft_nc", 1), ("monte_carlo_ns", 0.01),
            ("monte_carlo_nc", 0.02), ("numerical", 0.003),
        )
        for row in rows_of({"a": generator.random(30) * scale}, metric=metric)
    ]  # fmt: skip
    found = estimated(rows).variances.set_index("metric")
    parts = found[["between_samples", "monte_carlo", "numerical"]].sum(axis=1)
    assert parts.to_numpy() == pytest.approx(found["total"].to_numpy())
    chosen = [row["value"] for row in rows if row["metric"] == "auc_pi_soft_ns_unclamped"]
    assert found.loc["auc_pi_soft_ns", "total"] == pytest.approx(np.var(chosen, ddof=1))
    drawn = [row["value"] for row in rows if row["metric"] == "monte_carlo_nc"]
    assert found.loc["auc_pi_soft_nc", "monte_carlo"] == pytest.approx(np.mean(drawn))


def test_every_metric_with_a_direction_has_its_arrow():
    for metric in METRICS.values():
        arrow = {"highest": "↑", "lowest": "↓", None: ""}[metric.best]
        assert metric.label.endswith(arrow)
        assert ("↑" in metric.label or "↓" in metric.label) == (metric.best is not None)
