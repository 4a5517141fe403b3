"""Averages with each dataset left out, and what that does to the order of the methods."""

import itertools

import numpy as np
import pandas as pd
import pytest

from pisoft.statistics.robustness import kendall_tau, leave_one_out, order_changes

VALUES = pd.DataFrame(
    {"random": [0.1, 0.2, 0.3], "attention": [0.4, 0.5, 0.1], "mine": [0.2, 0.2, 2.4]},
    index=["sst2", "imdb", "boolq"],
)


def columns_without(values, left_out, best="highest"):
    """Values and ranks by method with one dataset left out."""
    rows = leave_one_out(values, best)
    same = rows["left_out"].isna() if left_out is None else rows["left_out"] == left_out
    return rows[same].set_index("method")[["value", "rank"]]


def changes_of(values, best="highest"):
    changes = order_changes(leave_one_out(values, best))
    return {None if pd.isna(row.left_out) else row.left_out: row for row in changes.itertuples()}


# Averages and ranks ---------------------------------------------------------------------------


@pytest.mark.parametrize("best", ["highest", "lowest"])
def test_values_and_ranks_are_those_of_a_plain_loop(best):
    numbers = np.random.default_rng(3).normal(size=(5, 7))
    values = pd.DataFrame(numbers, index=list("vwxyz"), columns=list("abcdefg"))
    rows = leave_one_out(values, best)
    assert len(rows) == (1 + 5) * 7
    for left_out, method, value, rank in rows.itertuples(index=False):
        kept = [k for k, dataset in enumerate("vwxyz") if dataset != left_out]
        means = {m: sum(numbers[k, "abcdefg".index(m)] for k in kept) / len(kept) for m in values}
        better = [m for m in means.values() if (m - means[method]) * (-1) ** (best == "lowest") > 0]
        assert value == pytest.approx(means[method], rel=1e-12)
        assert rank == 1 + len(better)


def test_all_datasets_come_first_then_each_left_out_in_order():
    rows = leave_one_out(VALUES, "highest")
    assert list(rows.columns) == ["left_out", "method", "value", "rank"]
    assert rows["left_out"].fillna("none").tolist()[::3] == ["none", "sst2", "imdb", "boolq"]
    assert rows["method"].tolist() == list(VALUES.columns) * 4


def test_ties_share_the_mean_rank_whatever_the_order_of_summation():
    tied = pd.DataFrame({"a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1], "c": [0.1, 0.1, 0.1]})
    assert tied["a"].mean() != tied["b"].mean()  # in the last bit
    assert columns_without(tied, None)["rank"].tolist() == [1.5, 1.5, 3]
    assert columns_without(tied, None, "lowest")["rank"].tolist() == [2.5, 2.5, 1]


def test_a_method_has_a_value_only_where_it_has_all_datasets_that_remain():
    values = VALUES.copy()
    values.loc["boolq", "mine"] = np.nan
    assert np.isnan(columns_without(values, None).loc["mine"]).all()
    assert columns_without(values, None)["rank"].to_dict()["attention"] == 1
    without = columns_without(values, "boolq")
    assert without.loc["mine"].tolist() == [pytest.approx(0.2), 2]


def test_of_a_single_dataset_nothing_is_left_out():
    rows = leave_one_out(VALUES.loc[["sst2"]], "highest")
    assert rows["left_out"].isna().all()
    assert rows["value"].tolist() == [0.1, 0.4, 0.2]
    assert order_changes(rows)["left_out"].isna().tolist() == [True]


# Orders ---------------------------------------------------------------------------------------


def test_the_order_hangs_on_the_dataset_that_decides_it():
    changes = changes_of(VALUES)
    assert changes[None].best == ("mine",)
    assert (changes[None].kendall_tau, changes[None].best_changes) == (1, False)
    assert changes["boolq"].best == ("attention",)
    assert changes["boolq"].best_changes
    assert changes["boolq"].kendall_tau == pytest.approx(1 / 3)  # 2 pairs as before, 1 not
    assert [changes[name].best_changes for name in ("sst2", "imdb")] == [False, False]


def test_methods_that_share_the_first_rank_are_all_best():
    changes = changes_of(pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 0.0]}, index=["x", "y"]))
    assert changes[None].best == ("a",)
    assert changes["y"].best == ("a", "b")
    assert changes["y"].best_changes


def test_without_a_number_nobody_is_best_and_orders_have_no_agreement():
    changes = changes_of(pd.DataFrame({"a": [np.nan, 1.0], "b": [np.nan, 2.0]}, index=["x", "y"]))
    assert (changes[None].best, changes["x"].best) == ((), ("b",))
    assert np.isnan(changes["x"].kendall_tau)


def test_kendall_tau_counts_pairs_in_the_same_order():
    generator = np.random.default_rng(5)
    one, other = (pd.Series(generator.normal(size=8), index=list("abcdefgh")) for _ in range(2))
    other["extra"], one["lone"], other["h"] = 3.0, 1.0, np.nan
    pairs = [
        np.sign((one[a] - one[b]) * (other[a] - other[b]))
        for a, b in itertools.combinations("abcdefg", 2)
    ]
    assert kendall_tau(one, other) == pytest.approx(sum(pairs) / len(pairs))
    assert kendall_tau(one, -other) == pytest.approx(-kendall_tau(one, other))
    assert np.isnan(kendall_tau(one[["a"]], other))
