"""Look-up of numbers by their keys, and the rows that a display receives."""

import numpy as np
import pytest

from helpers.estimated_results import view
from helpers.result_rows import frame, result_row, statistics_row
from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import AVERAGE
from pisoft.views.view import MISSING, Results

METHODS = {"b": "B", "a": "A", "c": "C"}
DATASETS = {"imdb": "IMDb", "sst2": "SST2", "boolq": "BoolQ"}


def results_of(*rows):
    return Results(frame(rows), METHODS, DATASETS).with_rows(frame(rows))


def ranked(method, rank, best="a", **keys):
    return statistics_row("m", "sst2", method, 1 - rank / 9, rank=rank, best=best, **keys)


def test_a_number_is_selected_by_all_given_keys():
    results = results_of(
        statistics_row("m", "sst2", "a", 0.1),
        statistics_row("m", "imdb", "a", 0.2),
        result_row("statistics", 0.3, metric="m", dataset="sst2", method="a", position=0.5),
    )
    assert results.number({"dataset": "sst2"}).value == 0.1, "the other keys are those of all rows"
    assert results.number({"dataset": "imdb", "method": "a", "metric": "m"}).value == 0.2
    assert results.number({"dataset": "sst2", "position": 0.5}).value == 0.3
    assert results.number({}) is MISSING, "the dataset is not the same in all rows"
    for keys in ({"method": "b"}, {"metric": "other"}, {"part": "gain"}, {"position": 0.1}):
        assert results.number({"dataset": "sst2", **keys}) is MISSING


def test_missing_numbers_have_no_value_and_no_text():
    assert np.isnan([MISSING.value, MISSING.n, MISSING.rank, MISSING.position]).all()
    assert (MISSING.best, MISSING.text, MISSING.is_best) == ("", "", False)
    assert Results(frame([ranked("a", 1)])[:0], {}, {}).number({"method": "a"}) is MISSING


def test_methods_tied_for_first_rank_are_all_best():
    rows = [ranked("a", 1.5), ranked("b", 1.5), ranked("c", 3), ranked("c", 1, part="p", best="c")]
    results = results_of(*rows)
    numbers = results.numbers(part="")
    assert [name for name, number in numbers.items() if number.is_best] == ["b", "a"]
    assert results.number({"method": "c", "part": "p"}).is_best
    for left_out_or_none in (ranked("b", 2), ranked("b", 1, best="")):
        assert not results_of(left_out_or_none).number({"method": "b"}).is_best


def test_labels_of_rows_keep_the_order_of_the_run():
    results = results_of(
        statistics_row("m", "sst2", "a", 0.1),
        statistics_row("m", "imdb", "b", 0.1, other="c"),
        statistics_row("m", AVERAGE, "a", 0.1),
    )
    assert list(results.methods) == ["b", "a", "c"]
    assert list(results.datasets) == ["imdb", "sst2"]
    assert results.with_average == {"imdb": "IMDb", "sst2": "SST2", "average": "Average"}
    assert results.summary == "average"
    single = results.select(dataset="sst2")
    assert (single.methods, single.with_average) == ({"a": "A"}, {"sst2": "SST2"})
    assert single.summary == "sst2"


def test_a_view_has_the_rows_of_its_cell_and_those_without_protocol():
    rows = [
        ranked("a", 1),
        ranked("b", 1, protocol="fixed"),
        ranked("c", 1, protocol=""),
        ranked("b", 1, model="mistral"),
    ]
    labels = {"methods": METHODS, "datasets": DATASETS}
    frames = {"statistics": frame(rows)}
    shown = view(frames, {"protocol": "dynamic", "model": "llama"}, **labels)
    assert shown.where == "Llama · dynamic routing"
    assert shown.results("statistics").methods == {"a": "A", "c": "C"}
    assert shown.results("statistics", method="b").rows.empty
    other = view(frames, {"protocol": "dynamic", "model": "gpt"}, **labels)
    assert other.results_if_any("statistics").rows.empty
    message = r"statistics\.parquet: holds no row for protocol 'dynamic', model 'gpt'"
    with pytest.raises(BenchmarkError, match=message):
        other.results("statistics", method="a")


@pytest.mark.parametrize(
    ("reaches", "digits"),
    [
        ((0.0029, 0.0031), 3),  # never more
        ((0.029,), 3),
        ((0.031,), 2),
        ((0.029, 0.08, 0.09), 2),  # the typical one
        *(((0.31,), 1), ((31,), 0), ((0,), 3), ((None,), 3)),
    ],
)
def test_decimals_follow_from_the_typical_interval(reaches, digits):
    rows = [
        statistics_row("m", "sst2", str(k), 0.0, low=end and -end, high=end)
        for k, end in enumerate(reaches)
    ]
    rows.append(statistics_row("m", "imdb", "0", 0.0, low=-1, high=1))
    shown = Results(frame(rows), {"0": "A"}, DATASETS)
    assert shown.number({"dataset": "sst2", "method": "0"}).decimals == digits
