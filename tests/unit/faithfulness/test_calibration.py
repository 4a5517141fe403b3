"""Calibration reaches the target mean for every kind of score vector, in few steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pisoft.faithfulness import calibration
from pisoft.faithfulness.calibration import calibrate, retaining_probabilities

FLOOR = 1e-6
GRID = np.array([0.01, 0.05, 0.3, 0.5, 0.77, 0.95, 0.99])


def calibrated(scores, pi=GRID):
    return calibrate(np.asarray(scores, dtype=np.float64), np.asarray(pi), FLOOR)


@st.composite
def score_vectors(draw):
    kind = draw(st.sampled_from(["uniform", "tied", "zeros", "one_hot", "constant", "sparse"]))
    m = draw(st.integers(1, 2000))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if kind == "uniform":
        return rng.random(m)
    if kind == "tied":
        return rng.choice([0.0, 0.25, 0.5, 1.0], size=m)
    if kind == "zeros":
        return rng.random(m) * (rng.random(m) < 0.05)
    if kind == "one_hot":
        return np.eye(1, m, rng.integers(m))[0]
    if kind == "constant":
        return np.full(m, draw(st.floats(0, 1)))
    return rng.random(m) ** 30


@pytest.mark.filterwarnings("error")
@settings(max_examples=150, deadline=None)
@given(score_vectors(), st.lists(st.floats(0.001, 0.999), min_size=1, max_size=5))
def test_calibrated_scores_reach_the_target_mean(scores, pi):
    result = calibrated(scores, pi)
    original, *transformed = retaining_probabilities(scores, result.alpha, FLOOR)
    assert (original == scores).all()
    np.testing.assert_allclose(np.mean(transformed, axis=1), pi, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.achieved, pi, rtol=0, atol=1e-9)


@pytest.mark.parametrize("power", [0.2, 1, 5, 30])
def test_a_few_steps_of_newtons_method_suffice_where_halving_takes_forty(power, monkeypatch):
    monkeypatch.setattr(calibration, "MAX_ITERATIONS", 7)
    scores = np.random.default_rng(0).random(500) ** power
    np.testing.assert_allclose(calibrated(scores).achieved, GRID, rtol=0, atol=1e-9)


def test_targets_reachable_only_by_the_floor_are_flagged():
    scores = np.array([0, 0, 0.3, 0.6, 0.6, 0.9, 0.95, 1, 1, 1])  # 3 ones, 2 zeros of 10
    feasible = calibrated(scores, [0.25, 0.3, 0.31, 0.79, 0.8, 0.9]).feasible
    assert feasible.tolist() == [False, False, True, True, False, False]
    assert calibrated(np.full(4, 0.5), [0.1, 0.9]).feasible.all()
    for end in (np.ones(4), np.zeros(4)):
        assert not calibrated(end, [0.1, 0.9]).feasible.any()
    result = calibrated([0, 1e-7, FLOOR, 0.5, 1 - FLOOR, 1, 1 - 1e-7])
    assert (result.floored, result.ceiled) == (3, 3)


@pytest.mark.parametrize(
    ("scores", "pi", "floor", "message"),
    [
        *(([0.2], pi, FLOOR, "retaining prob") for pi in ([0.0], [1.0], [0.5, 1.2], [])),
        ([0.2, np.nan], GRID, FLOOR, "scores"),
        ([], GRID, FLOOR, "at least one"),
        *(([0.2, 1.0], GRID, floor, f"floor .*{floor}$") for floor in (0.0, 5e-17, 0.5, np.nan)),
    ],
)
def test_uncalibratable_inputs_are_refused(scores, pi, floor, message):
    with pytest.raises(ValueError, match=message):
        calibrate(np.array(scores, dtype=np.float64), np.array(pi), floor)
