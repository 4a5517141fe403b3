"""Grids of numbers: order, marks, gaps, and what the CSV file holds."""

import pytest

from helpers.result_rows import frame, statistics_row
from pisoft.formatting import NOTHING
from pisoft.tables.grid import (
    Column,
    blocks,
    columns,
    each,
    general,
    metrics,
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


def results_of(*rows):
    return Results(frame(rows), METHODS, {"sst2": "SST2"})


def row(method, value, metric="auc_pi_soft_ns", dataset="sst2", **more):
    return statistics_row(metric, dataset, method, value, **more)


def labels_of(results, order_by, **options):
    (block,) = blocks(results, {"": {}}, each("method", METHODS), [BY_VALUE], order_by, **options)
    return [line.label for line in block.rows]


def test_lines_are_ordered_by_rank_ties_as_given_and_without_a_value_last():
    results = results_of(
        row("a", None), row("b", 0.9, rank=3), row("c", 0.1, rank=1.5), row("d", 0.1, rank=1.5)
    )
    assert labels_of(results, BY_VALUE) == ["C", "D", "B", "A"]
    assert labels_of(results, None) == ["A", "B", "C", "D"]


def test_block_line_and_column_address_a_number_together():
    results = results_of(
        *(row(method, number, metric, dataset)
          for number, (metric, dataset, method) in enumerate(
              (m, d, name) for m in ("auc_pi_soft_ns", "auc_pi_soft_nc") for d in ("sst2", "x")
              for name in "ab"))
    )  # fmt: skip
    grid = columns("dataset", {"sst2": "S", "x": "X", "absent": "?"}, general)
    titles, lines = (
        metrics(["auc_pi_soft_nc", "auc_pi_soft_ns"]),
        each("method", {"a": "A", "b": "B"}),
    )
    made = blocks(results, titles, lines, grid, families={"a": "gradient"})
    assert [block.title for block in made] == ["AUC π-Soft-NC ↑", "AUC π-Soft-NS ↑"]
    texts = [[[entry.text for entry in line.entries] for line in block.rows] for block in made]
    assert texts == [[["4", "6", NOTHING], ["5", "7", NOTHING]],
                     [["0", "2", NOTHING], ["1", "3", NOTHING]]]  # fmt: skip
    assert [line.family for line in made[0].rows] == ["gradient", ""]


def test_two_lines_of_one_label_are_both_shown():
    assert each("method", {"a": "A", "b": "A"}) == {"A": {"method": "a"}, "A (b)": {"method": "b"}}


def test_the_best_is_bold_and_others_have_the_sign_of_their_test():
    ends = {"low": 0.1, "high": 0.2, "best": "a", "metric": "auc_pi_soft_ns"}
    rows = [
        row("a", 0.9, rank=1, **ends),
        row("b", 0.8, rank=2, p_adjusted=0.05, **ends),
        row("c", 0.7, rank=3, p_adjusted=0.049, **ends),
        row("d", 0.6, rank=4, p_adjusted=0.5, p_equivalence=0.049, **ends),
        row("e", 0.6, rank=5, **ends),
        row("f", None, best="a", metric="auc_pi_soft_ns"),
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
