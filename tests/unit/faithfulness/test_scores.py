"""Normalisation of raw scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pisoft.config.evaluation import ScoreSettings
from pisoft.faithfulness.scores import aggregated, evaluated, normalise

finite = arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e300, 1e300))


@given(finite, st.sampled_from(["minmax", "rank", "max"]))
def test_scores_are_in_range_and_keep_the_order(raw, how):
    scores = normalise(raw, how)
    assert ((scores >= 0) & (scores <= 1)).all()
    order = np.argsort(raw, kind="stable")
    assert (np.diff(scores[order]) >= 0).all()


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1.0, 1.7e308])
def test_minmax_reaches_both_ends_whatever_the_size_of_the_scores(size):
    scores = normalise(np.array([-size, 0.0, size]), "minmax")
    np.testing.assert_array_equal(scores, [0, 0.5, 1])


def test_minmax_spans_zero_to_one():
    np.testing.assert_allclose(normalise(np.array([2.0, 4.0, 3.0]), "minmax"), [0, 1, 0.5])


def test_rank_averages_ties():
    np.testing.assert_allclose(
        normalise(np.array([5.0, 1, 1, 9]), "rank"), [2 / 3, 1 / 6, 1 / 6, 1]
    )


def test_max_divides_by_the_maximum_and_cuts_negative_scores():
    np.testing.assert_allclose(normalise(np.array([-3.0, 1.0, 4.0]), "max"), [0, 0.25, 1])


@pytest.mark.parametrize("how", ["minmax", "rank", "max"])
@pytest.mark.parametrize("raw", [[0.0], [7.0], [-2.0, -2.0], [0.0, 0.0]])
def test_scores_without_order_become_one_half(raw, how):
    np.testing.assert_array_equal(normalise(np.array(raw), how), 0.5)


@pytest.mark.parametrize("raw", [[], [np.nan, 1.0], [np.inf, 1.0]])
def test_raw_scores_that_are_not_finite_are_refused(raw):
    with pytest.raises(ValueError, match="finite"):
        normalise(np.array(raw), "minmax")


def test_one_heatmap_per_sample_is_the_mean_of_raw_scores_over_steps():
    rows = [
        {"step": 0, "raw_scores": [1.0, 2.0], "status": "ok"},
        {"step": 5, "raw_scores": [3.0, 10.0], "status": "ok"},
    ]
    assert [row["step"] for row in aggregated(rows)] == [0, 5]
    for row in aggregated(rows):
        np.testing.assert_array_equal(row["raw_scores"], [2.0, 6.0])


def test_a_heatmap_of_all_explained_steps_is_evaluated_at_some_of_them():
    rows = [{"step": k, "raw_scores": [2.0**k], "status": "ok"} for k in range(7)]
    settings = ScoreSettings(step_scores="aggregated", step_interval=3)
    found = [(row["step"], row["raw_scores"].tolist()) for row in evaluated(rows, settings)]
    assert found == [(step, [127 / 7]) for step in (0, 3, 6)]
    own = evaluated(rows, ScoreSettings(step_interval=3))
    assert own == rows[::3]
    assert evaluated(rows, ScoreSettings()) == rows


def test_there_is_no_heatmap_where_a_step_has_failed():
    rows = [
        {"step": 0, "raw_scores": [1.0, 2.0], "status": "ok"},
        {"step": 5, "raw_scores": None, "status": "nonfinite_attribution"},
    ]
    found = [(row["raw_scores"], row["status"]) for row in aggregated(rows)]
    assert found == [(None, "nonfinite_attribution")] * 2
