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


@pytest.mark.parametrize(
    ("how", "raw", "expected"),
    [
        *(("minmax", [-size, 0.0, size], [0, 0.5, 1]) for size in (5e-324, 1e-310, 1.0, 1.7e308)),
        ("minmax", [2.0, 4.0, 3.0], [0, 1, 0.5]),
        ("rank", [5.0, 1.0, 1.0, 9.0], [2 / 3, 1 / 6, 1 / 6, 1]),
        ("max", [-3.0, 1.0, 4.0], [0, 0.25, 1]),
        *(
            (how, [value] * count, [0.5] * count)  # without order
            for how in ("minmax", "rank", "max")
            for value, count in ((0.0, 1), (7.0, 1), (-2.0, 2), (0.0, 2))
        ),
    ],
)
def test_scores_are_normalised_by_range_rank_or_maximum(how, raw, expected):
    np.testing.assert_allclose(normalise(np.array(raw), how), expected, rtol=1e-15)


@pytest.mark.parametrize("raw", [[], [np.nan, 1.0], [np.inf, 1.0]])
def test_nonfinite_raw_scores_are_refused(raw):
    with pytest.raises(ValueError, match="finite"):
        normalise(np.array(raw), "minmax")


FAILURE = "nonfinite_attribution"


@pytest.mark.parametrize(
    ("later", "status", "expected"),
    [([3.0, 10.0], "ok", [2.0, 6.0]), (None, FAILURE, None)],
)
def test_one_heatmap_per_sample_is_the_mean_over_steps_unless_one_has_failed(
    later, status, expected
):
    rows = [
        {"step": 0, "raw_scores": [1.0, 2.0], "status": "ok"},
        {"step": 5, "raw_scores": later, "status": status},
    ]
    result = aggregated(rows)
    assert [(row["step"], row["status"]) for row in result] == [(0, status), (5, status)]
    for row in result:
        np.testing.assert_array_equal(row["raw_scores"], expected)


def test_a_heatmap_over_all_steps_is_evaluated_at_every_interval():
    rows = [{"step": k, "raw_scores": [2.0**k], "status": "ok"} for k in range(7)]
    settings = ScoreSettings(step_scores="aggregated", step_interval=3)
    heatmaps = [(row["step"], row["raw_scores"].tolist()) for row in evaluated(rows, settings)]
    assert heatmaps == [(step, [127 / 7]) for step in (0, 3, 6)]
    assert evaluated(rows, ScoreSettings(step_interval=3)) == rows[::3]
    assert evaluated(rows, ScoreSettings()) == rows
