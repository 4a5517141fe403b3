"""Method rankings: τ-b against SciPy, ties by rounding, direction, excluded datasets."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, rankdata

from helpers.result_rows import results
from pisoft.statistics.orders import (
    kendall_taus,
    leave_one_out,
    order_changes,
    oriented_values,
    ranks,
)


def test_taus_equal_scipys_row_by_row_with_ties_and_missing_numbers():
    first, second = np.random.default_rng(2).integers(4, size=(2, 50, 6)).astype(float)
    second[:20, 2] = first[10:30, 4] = np.nan
    alike = np.broadcast_to(first[0], second.shape)
    np.testing.assert_array_equal(kendall_taus(first[0], second), kendall_taus(alike, second))
    for tau, x, y in zip(kendall_taus(first, second), first, second, strict=True):
        compared = np.isfinite(x + y)
        assert tau == pytest.approx(kendalltau(x[compared], y[compared]).statistic, nan_ok=True)


@pytest.mark.parametrize(("best", "sign"), [("highest", -1), ("lowest", 1)])
def test_ranks_equal_scipys_and_ignore_rounding(best, sign):
    numbers = np.random.default_rng(4).integers(4, size=(20, 7)) / 3
    expected = rankdata(sign * numbers, axis=1)
    noise = np.linspace(-1e-14, 1e-14, 7)
    np.testing.assert_array_equal(ranks(numbers + noise, best), expected)
    np.testing.assert_array_equal(ranks(numbers[0] + noise, best), expected[0])
    numbers[:, 3] = np.nan
    assert np.isnan(ranks(numbers, best)).sum(axis=0).tolist() == [0, 0, 0, 20, 0, 0, 0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", [[1.0], [], [1.0, 1.0], [1.0, np.nan]])
def test_tau_needs_two_methods_that_differ_by_more_than_rounding(first):
    assert np.isnan(kendall_taus(first, np.arange(float(len(first)))))
    assert kendall_taus([1.0, 1 + 1e-14, 2], [3.0, 3, 4]) == 1


def test_cells_keep_their_order_and_lower_is_better_is_negated():
    metrics = ["soft_nc", "insertion_auc", "insertion_auc", "soft_ns"]
    columns = (metrics, ["mine", "mine", "random", "mine"], [0.5, 0.5, 0.75, None])
    names = ("metric", "method", "value")
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    values = oriented_values(results("statistics", rows))
    assert list(values.index.get_level_values("metric")) == ["soft_nc", "insertion_auc"]
    assert values.iloc[1].tolist() == [-0.5, -0.75]


VALUES = pd.DataFrame(
    {"random": [0.1, 0.2, 0.3], "attention": [0.4, 0.5, 0.1], "mine": [0.2, 0.2, 2.4]},
    index=["sst2", "imdb", "boolq"],
)


def changes_of(values):
    changes = order_changes(leave_one_out(values, "highest"))
    return {row.other: row for row in changes.itertuples()}


def test_a_method_needs_a_value_on_every_remaining_dataset():
    values = VALUES.copy()
    values.loc["boolq", "mine"] = np.nan
    rows = leave_one_out(values, "highest")
    mine = rows[rows["method"] == "mine"].set_index("other")
    missing = {"": True, "sst2": True, "imdb": True, "boolq": False}
    assert mine["rank"].isna().to_dict() == missing
    assert mine.loc["boolq", ["value", "rank"]].tolist() == [pytest.approx(0.2), 2]


def test_means_and_ranks_use_the_remaining_datasets():
    rows = leave_one_out(VALUES.loc[["sst2", "imdb"]], "lowest").set_index(["other", "method"])
    keys = [(other, method) for other in ("", "sst2", "imdb") for method in VALUES]
    assert list(rows.index) == keys
    expected = [0.15, 0.45, 0.2, 0.2, 0.5, 0.2, 0.1, 0.4, 0.2]
    assert rows["value"].tolist() == pytest.approx(expected)
    assert rows["rank"].tolist() == [1, 3, 2, 1.5, 3, 1.5, 1, 3, 2]
    alone = leave_one_out(VALUES.loc[["sst2"]], "highest")
    assert (alone["other"] == "").all()
    assert alone["value"].tolist() == [0.1, 0.4, 0.2]
    assert order_changes(alone)["best_differs"].tolist() == [False]


def test_the_dataset_that_decides_the_order_is_found():
    changes = changes_of(VALUES)
    assert list(changes) == ["", *VALUES.index]
    assert (changes[""].best, changes[""].kendall_tau) == (("mine",), 1)
    assert changes["boolq"].best == ("attention",)
    assert changes["boolq"].kendall_tau == pytest.approx(1 / 3)  # 2 pairs as before, 1 not
    flags = {name: row.best_differs for name, row in changes.items()}
    assert flags == {"": False, "sst2": False, "imdb": False, "boolq": True}
    shared = changes_of(pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 0.0]}, index=["x", "y"]))["y"]
    assert (shared.best, shared.best_differs) == (("a", "b"), True)
    none = changes_of(pd.DataFrame({"a": [np.nan, 1.0], "b": [np.nan, 2.0]}, index=["x", "y"]))
    assert (none[""].best, none["x"].best) == ((), ("b",))
    assert np.isnan(none["x"].kendall_tau), "nothing agrees with an order without a number"
