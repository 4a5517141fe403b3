"""Means over samples against plain numpy, and sign flips against every choice of signs."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from statsmodels.stats.multitest import multipletests

from pisoft.statistics.means import mean_rows, sign_flip_rows, with_tests
from pisoft.statistics.metrics import AVERAGE

GENERATOR = np.random.default_rng(3)


def frame(**columns):
    return pd.DataFrame(columns).rename_axis(columns="name")


GIVEN = {
    "a": frame(x=[1.0, 2.0, 4.0, np.nan], y=[0.5, -0.5, 1.0, 0.25], z=[np.nan] * 4),
    "b": frame(z=[1.0, 1.0, 2.0], y=[1.0, 2.0, 3.0], x=[-1.0, -2.0, -6.0]),  # another order
}


def exact_p_value(parts):
    sums = np.array(list(itertools.product([1, -1], repeat=len(parts)))) @ parts
    low, high = (sums <= sum(parts) + 1e-12).mean(), (sums >= sum(parts) - 1e-12).mean()
    return min(1.0, 2 * min(low, high))


def test_means_and_counts_by_dataset_and_for_their_average():
    rows = mean_rows(GIVEN, 1, 50).set_index(["dataset", "name"])
    assert rows.loc[("a", "x"), ["value", "n", "n_failed"]].tolist() == [7 / 3, 3, 1]
    assert rows.loc[("b", "x"), ["value", "n", "n_failed"]].tolist() == [-3, 3, 0]
    assert rows.loc[(AVERAGE, "x"), "value"] == pytest.approx((7 / 3 - 3) / 2)
    assert rows.loc[(AVERAGE, "x"), ["n", "n_failed"]].tolist() == [6, 1]
    assert rows.loc[("a", "z"), ["n", "n_failed"]].tolist() == [0, 4]
    for dataset in ("a", AVERAGE):
        assert rows.loc[(dataset, "z"), ["value", "low", "high"]].isna().all(), "no mean without a"


def test_intervals_are_those_of_student_for_normal_samples():
    values = GENERATOR.normal(size=400)
    (row,) = mean_rows({"a": frame(x=values)}, 1, 10_000).query("dataset == 'a'").itertuples()
    half = t.ppf(0.975, 399) * values.std(ddof=1) / 20
    assert row.low == pytest.approx(values.mean() - half, abs=0.01)
    assert row.high == pytest.approx(values.mean() + half, abs=0.01)


def test_a_single_sample_has_no_interval_and_any_sign():
    (row, _) = mean_rows({"a": frame(x=[2.0])}, 1, 50).itertuples()
    assert row.value == 2
    assert np.isnan([row.low, row.high]).all()
    assert sign_flip_rows({"a": frame(x=[2.0])}, 1, 50, [])["p_value"].tolist() == [1, 1]


def test_p_values_of_few_samples_are_exact_and_corrected_within_their_family():
    tests = sign_flip_rows(GIVEN, 1, 1000, [])
    found = tests.set_index(["dataset", "name"])["p_value"]
    assert ("a", "z") not in found.index
    parts = {name: GIVEN[name].fillna(0) / GIVEN[name].notna().sum() for name in GIVEN}
    for dataset, own in parts.items():
        for name in ("x", "y"):
            assert found[dataset, name] == pytest.approx(exact_p_value(own[name].to_numpy()))
    both = np.concatenate([own["x"] / 2 for own in parts.values()])
    assert found[AVERAGE, "x"] == pytest.approx(exact_p_value(both))
    rows = with_tests(mean_rows(GIVEN, 1, 50), tests).set_index(["dataset", "name"])
    expected = multipletests([found["b", name] for name in "zyx"], method="holm")[1]
    assert [rows["p_holm"]["b", name] for name in "zyx"] == pytest.approx(list(expected))
    assert rows.loc[("a", "z"), ["p_value", "p_holm"]].isna().all()
