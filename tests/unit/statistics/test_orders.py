"""Orders of methods: τ-b against SciPy, ties by rounding, direction, datasets left out."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from helpers.result_rows import results
from pisoft.statistics.orders import kendall_taus, leave_one_out, order_changes, oriented_values


def test_taus_equal_scipys_row_by_row_with_ties_and_missing_numbers():
    first, second = np.random.default_rng(2).integers(4, size=(2, 50, 6)).astype(float)
    second[:20, 2] = np.nan
    for tau, x, y in zip(kendall_taus(first, second), first, second, strict=True):
        compared = np.isfinite(y)
        assert tau == pytest.approx(kendalltau(x[compared], y[compared]).statistic, nan_ok=True)
    alike = np.broadcast_to(first[0], second.shape)
    np.testing.assert_array_equal(kendall_taus(first[0], second), kendall_taus(alike, second))


@pytest.mark.parametrize("first", [[1.0], [], [1.0, 1.0], [1.0, np.nan]])
def test_without_two_untied_methods_there_is_no_tau_and_rounding_is_no_difference(first):
    assert np.isnan(kendall_taus(first, np.arange(float(len(first)))))
    assert kendall_taus([1.0, 1 + 1e-14, 2], [3.0, 3, 4]) == 1


def test_cells_keep_their_order_and_lower_is_turned_into_higher():
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


@pytest.mark.parametrize("best", ["highest", "lowest"])
def test_values_and_ranks_are_those_of_a_plain_loop_with_all_datasets_first(best):
    numbers = np.random.default_rng(3).normal(size=(5, 7))
    rows = leave_one_out(pd.DataFrame(numbers, index=list("vwxyz"), columns=list("abcdefg")), best)
    expected = []
    for left_out in ("", *"vwxyz"):
        kept = [k for k, dataset in enumerate("vwxyz") if dataset != left_out]
        means = [sum(numbers[k, column] for k in kept) / len(kept) for column in range(7)]
        ordered = sorted(means, reverse=best == "highest")
        expected += [
            (left_out, method, pytest.approx(mean, rel=1e-12), 1 + ordered.index(mean))
            for method, mean in zip("abcdefg", means, strict=True)
        ]
    columns = ["other", "method", "value", "rank"]
    assert list(rows[columns].itertuples(index=False)) == expected


def test_a_method_has_a_value_only_where_it_has_all_datasets_that_remain():
    values = VALUES.copy()
    values.loc["boolq", "mine"] = np.nan
    rows = leave_one_out(values, "highest")
    mine = rows[rows["method"] == "mine"].set_index("other")
    missing = {"": True, "sst2": True, "imdb": True, "boolq": False}
    assert mine["rank"].isna().to_dict() == missing
    assert mine.loc["boolq", ["value", "rank"]].tolist() == [pytest.approx(0.2), 2]


def test_of_a_single_dataset_nothing_is_left_out():
    rows = leave_one_out(VALUES.loc[["sst2"]], "highest")
    assert (rows["other"] == "").all()
    assert rows["value"].tolist() == [0.1, 0.4, 0.2]
    assert order_changes(rows)["other"].tolist() == [""]


def test_the_order_hangs_on_the_dataset_that_decides_it():
    changes = changes_of(VALUES)
    assert (changes[""].best, changes[""].kendall_tau) == (("mine",), 1)
    assert changes["boolq"].best == ("attention",)
    assert changes["boolq"].kendall_tau == pytest.approx(1 / 3)  # 2 pairs as before, 1 not
    flags = {name: row.best_changes for name, row in changes.items()}
    assert flags == {"": False, "sst2": False, "imdb": False, "boolq": True}
    shared = changes_of(pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 0.0]}, index=["x", "y"]))["y"]
    assert (shared.best, shared.best_changes) == (("a", "b"), True)


def test_without_a_number_nobody_is_best_and_orders_have_no_agreement():
    changes = changes_of(pd.DataFrame({"a": [np.nan, 1.0], "b": [np.nan, 2.0]}, index=["x", "y"]))
    assert (changes[""].best, changes["x"].best) == ((), ("b",))
    assert np.isnan(changes["x"].kendall_tau)
