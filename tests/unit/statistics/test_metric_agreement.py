"""Agreement of metrics: orders compared, direction, gaps."""

import numpy as np
import pytest

from agreeing import DATASETS, DELETION, INSERTION, NC, NS, metric_rows
from pisoft.statistics.metric_agreement import (
    RANKING_METRICS,
    SOFT_METRICS,
    agreement_matrix,
    metric_agreement,
    ordering_metrics,
)
from uncertainty import frame


def compared(rows, datasets=DATASETS):
    statistics = frame(rows)
    metrics, _ = ordering_metrics(statistics)
    found = metric_agreement(statistics, metrics, datasets)
    return {
        (row["dataset"], row["protocol"], row["metric"], row["other_protocol"], row["other"]): row
        for row in found.to_dict("records")
    }


def tau(rows, metric, other):
    (row,) = (
        row
        for key, row in compared(rows).items()
        if key[0] == "average" and (key[2], key[4]) == (metric, other)
    )
    return row["kendall_tau"]


def test_of_insertion_the_lowest_is_best():
    rows = metric_rows({NS: [0.1, 0.2, 0.9], DELETION: [1, 2, 3], INSERTION: [0.3, 0.2, 0.1]})
    assert tau(rows, NS, INSERTION) == tau(rows, DELETION, INSERTION) == tau(rows, NS, DELETION)
    assert tau(rows, NS, INSERTION) == 1


def test_methods_without_a_value_are_left_out_of_the_pair_only():
    rows = metric_rows({NS: [1, 2, 3, 0], NC: [1, 2, 3, None], "soft_nc": [1, 2, 3, 0.5]})
    found = compared(rows)
    assert found["average", "dynamic", NS, "dynamic", NC]["n_methods"] == 3
    assert found["average", "dynamic", NS, "dynamic", NC]["kendall_tau"] == 1
    assert found["average", "dynamic", NS, "dynamic", "soft_nc"]["n_methods"] == 4


@pytest.mark.parametrize("values", [[5, 5, 5], [5, None, None], [None, 5, None]])
def test_tau_is_undefined_without_an_order(values):
    assert np.isnan(tau(metric_rows({NS: [1, 2, 3], NC: values}), NS, NC))


def test_protocols_are_compared_with_each_other_and_datasets_on_their_own():
    rows = metric_rows({NS: [1, 2, 3]}, "dynamic", ["average", "sst2", "imdb"])
    rows += metric_rows({NS: [3, 2, 1]}, "fixed", ["average", "imdb"])
    found = compared(rows)
    assert found["average", "dynamic", NS, "fixed", NS]["kendall_tau"] == -1
    assert np.isnan(found["sst2", "dynamic", NS, "fixed", NS]["kendall_tau"])
    assert found["sst2", "dynamic", NS, "fixed", NS]["n_methods"] == 0
    assert found["imdb", "dynamic", NS, "fixed", NS]["kendall_tau"] == -1
    assert [key[0] for key in found] == ["average", "sst2", "imdb"]


def test_metrics_without_a_value_are_left_out():
    rows = metric_rows({NS: [1, 2], NC: [None, None], DELETION: [1, 2]})
    shown, left_out = ordering_metrics(frame(rows))
    assert [metric.label for metric in shown] == ["π-Soft-NS · dynamic", "Deletion"]
    assert len(left_out) == len(SOFT_METRICS) + len(RANKING_METRICS) - 2
    assert "π-Soft-NC · dynamic" in [metric.label for metric in left_out]


def test_each_pair_stands_in_the_line_of_its_second_metric():
    rows = metric_rows({NS: [1, 2, 3], NC: [3, 2, 1], DELETION: [1, 3, 2]})
    statistics = frame(rows)
    metrics, _ = ordering_metrics(statistics)
    found = metric_agreement(statistics, metrics, DATASETS)
    matrix = agreement_matrix(found, metrics, "average")
    nan = np.nan
    expected = [[nan, nan, nan], [-1, nan, nan], [1 / 3, -1 / 3, nan]]
    np.testing.assert_allclose(matrix, expected)
