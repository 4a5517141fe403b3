"""Grids of numbers: order, marks, gaps, and what the CSV file holds."""

import pytest

from helpers.result_rows import frame, statistics_row
from pisoft.formatting import NOTHING
from pisoft.tables.grid import (
    Column,
    blocks,
    each,
    general,
    p_value,
    plain,
    rank,
    ranked,
    with_interval,
)
from pisoft.tables.layout import Entry
from pisoft.views.view import MISSING, Results

METHODS = {"a": "A", "b": "B", "c": "C", "d": "D"}
BY_VALUE = Column("Value", {"dataset": "sst2"}, plain(2))


def row(method, value, **more):
    return statistics_row("auc_pi_soft_ns", "sst2", method, value, **more)


@pytest.mark.parametrize(("by", "labels"), [(BY_VALUE, "CDBA"), (None, "ABCD")])
def test_lines_are_ordered_by_rank_ties_as_given_and_without_a_value_last(by, labels):
    numbers = [("a", None, None), ("b", 0.9, 3), ("c", 0.1, 1.5), ("d", 0.1, 1.5)]
    rows = [row(method, value, rank=place) for method, value, place in numbers]
    results = Results(frame(rows), METHODS, {"sst2": "SST2"})
    (block,) = blocks(results, {"": {}}, each("method", METHODS), [BY_VALUE], by)
    assert [line.label for line in block.rows] == [*labels]


def test_two_lines_of_one_label_are_both_shown():
    assert each("method", {"a": "A", "b": "A"}) == {"A": {"method": "a"}, "A (b)": {"method": "b"}}


def test_the_best_is_bold_and_others_have_the_sign_of_their_test():
    ends = {"low": 0.1, "high": 0.2, "best": "a"}
    rows = [
        row("a", 0.9, rank=1, **ends),
        row("b", 0.8, rank=2, p_adjusted=0.05, **ends),
        row("c", 0.7, rank=3, p_adjusted=0.049, **ends),
        row("d", 0.6, rank=4, p_adjusted=0.5, p_equivalence=0.049, **ends),
        row("e", 0.6, rank=5, **ends),
        row("f", None, best="a"),
    ]
    results = Results(frame(rows), {name: name.upper() for name in "abcdef"}, {"sst2": "SST2"})
    shown = [ranked(number) for number in results.numbers().values()]
    interval = "[.10, .20]"
    assert shown == [
        Entry("0.90", strong=True, interval=interval),
        Entry("0.80", mark="≈", interval=interval),
        Entry("0.70", interval=interval),
        Entry("0.60", mark="≡", interval=interval),
        Entry("0.60", mark="?", interval=interval),
        Entry(NOTHING),
    ]


@pytest.mark.parametrize("show", [plain(3), with_interval, ranked, rank, general, p_value])
def test_a_missing_number_is_a_dash(show):
    assert show(MISSING) == Entry(NOTHING)
