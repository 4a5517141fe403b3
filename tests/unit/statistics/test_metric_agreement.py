"""Metric agreement: compared rankings, directions, gaps."""

import numpy as np
import pandas as pd
import pytest

from helpers.agreement_results import DATASETS, DELETION, INSERTION, NC, NS, metric_rows
from helpers.result_rows import results
from pisoft.statistics.estimates import Estimates
from pisoft.statistics.metric_agreement import (
    RANKING_METRICS,
    SOFT_METRICS,
    metric_agreement,
    ordering_metrics,
    resampled_agreement,
)

PAIR = ["dataset", "protocol", "metric", "part", "other"]


def compared(rows):
    """τ and the number of methods, by :data:`PAIR`."""
    statistics = results("statistics", rows)
    metrics, _ = ordering_metrics(statistics)
    return metric_agreement(statistics, metrics, DATASETS).set_index(PAIR)


def tau(rows, metric, other):
    average = compared(rows)["value"].xs("average")
    return average.xs((metric, other), level=["metric", "other"]).item()


def test_methods_without_a_value_are_excluded_per_pair():
    rows = metric_rows({NS: [1, 2, 3, 0], NC: [1, 2, 3, None], "soft_nc": [1, 2, 3, 0.5]})
    taus = compared(rows)
    assert taus.loc["average", "dynamic", NS, "dynamic", NC].tolist() == [1, 3]
    assert taus.loc["average", "dynamic", NS, "dynamic", "soft_nc"]["n"] == 4


def test_protocols_are_compared_within_each_dataset():
    rows = metric_rows({NS: [1, 2, 3]}, "dynamic", ["average", "sst2", "imdb"])
    rows += metric_rows({NS: [3, 2, 1]}, "fixed", ["average", "imdb"])
    taus = compared(rows).xs(("dynamic", NS, "fixed", NS), level=PAIR[1:])
    assert list(taus.index) == ["average", "sst2", "imdb"]
    assert list(taus["value"]) == pytest.approx([-1, np.nan, -1], nan_ok=True)
    assert list(taus["n"]) == [3, 0, 3]


def test_counterfactuals_are_compared_where_present():
    values = {NS: [0.1, 0.2, 0.9], DELETION: [1, 2, 3], INSERTION: [3, 2, 1]}
    without, _ = ordering_metrics(results("statistics", metric_rows(values)))
    rows = metric_rows(values | {"tokens_changed": [0.3, 0.2, 0.1]})
    metrics, _ = ordering_metrics(results("statistics", rows))
    assert [*metrics.values()] == [*without.values(), "Tokens changed"]
    assert tau(rows, NS, "tokens_changed") == 1


def test_agreement_is_computed_on_samples_and_resamples():
    """τ of three methods by hand: all pairs alike, then one of three, then none."""
    changed = [[0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3]]
    area = [[0.9, 0.8, 0.7], [0.8, 0.9, 0.7], [0.7, 0.8, 0.9]]
    keys = [("tokens_changed", "", "llama"), (NS, "fixed", "llama"), (NC, "fixed", "other")]
    columns = pd.MultiIndex.from_tuples(
        [(*key, method) for key in keys for method in "abc"],
        names=["metric", "protocol", "model", "method"],
    )
    replicates = pd.DataFrame(np.hstack([changed, area, area]), columns=columns)
    sizes = {"n": [9, 7, 8, *[9] * 6], "n_failed": [0, 2, 1, *[0] * 6], "n_clusters": 9}
    counts = pd.DataFrame(sizes | {"datasets": 1, "fewest": 9}, columns)
    estimates = Estimates(replicates, counts)
    (rows,) = resampled_agreement(estimates, "tokens_changed", (NS, NC))
    row = rows.iloc[0]
    assert row[["protocol", "model", "other"]].tolist() == ["fixed", "llama", NS]
    assert row["value"] == pytest.approx(1)
    assert row[["low", "high"]].tolist() == pytest.approx([-1, 1 / 3], abs=0.1)
    assert row[["n", "n_failed"]].tolist() == [7, 2]
    assert not [*resampled_agreement(estimates, "not_flipped", (NS, NC))]


def test_metrics_without_a_value_are_excluded():
    rows = metric_rows({NS: [1, 2], NC: [None, None], DELETION: [1, 2]})
    metrics, left_out = ordering_metrics(results("statistics", rows))
    assert list(metrics.values()) == ["π-Soft-NS · dynamic", "Deletion"]
    assert len(left_out) == len(SOFT_METRICS) + len(RANKING_METRICS) - 2
    assert left_out["dynamic", NC] == "π-Soft-NC · dynamic"
