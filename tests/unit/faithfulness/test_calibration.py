"""Calibration against bisection in 40 digits, over every kind of score vector."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pisoft.faithfulness.calibration import calibrate, clip_scores

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


@settings(max_examples=150, deadline=None)
@given(score_vectors(), st.lists(st.floats(0.001, 0.999), min_size=1, max_size=5))
def test_transformed_scores_reach_the_target_mean(scores, pi):
    result = calibrated(scores, pi)
    clipped = clip_scores(scores, FLOOR)
    for alpha, achieved, target in zip(result.alpha, result.achieved, pi, strict=True):
        assert abs((clipped**alpha).mean() - target) <= 1e-9
        assert abs(achieved - target) <= 1e-9


@settings(max_examples=12, deadline=None)
@given(score_vectors(), st.floats(0.01, 0.99))
def test_alpha_equals_high_precision_bisection(scores, pi):
    scores = scores[:40]
    alpha = calibrated(scores, [pi]).alpha[0]
    with mpmath.workdps(40):
        logs = [mpmath.log(mpmath.mpf(float(s))) for s in clip_scores(scores, FLOOR)]

        def mean(log_alpha):
            power = mpmath.exp(log_alpha)
            return sum(mpmath.exp(power * x) for x in logs) / len(logs)

        low, high = mpmath.mpf(-60), mpmath.mpf(60)
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if mean(middle) > pi else (low, middle)
        # α is as sharp as the mean is steep in it; compare where float64 can tell.
        slope = abs(sum(mpmath.exp(low) * x * mpmath.exp(mpmath.exp(low) * x) for x in logs))
        tolerance = 1e-8 + 1e-11 / max(float(slope / len(logs)), 1e-300)
        assert abs(float(mpmath.log(alpha) - low)) <= tolerance


def test_feasible_says_what_is_reachable_without_the_floor():
    scores = np.array([0, 0, 0.3, 0.6, 0.6, 0.9, 0.95, 1, 1, 1])  # 3 ones, 2 zeros of 10
    feasible = calibrated(scores, [0.25, 0.3, 0.31, 0.79, 0.8, 0.9]).feasible
    assert feasible.tolist() == [False, False, True, True, False, False]
    assert calibrated(np.full(4, 0.5), [0.1, 0.9]).feasible.all()
    assert not calibrated(np.ones(4), [0.1, 0.9]).feasible.any()
    assert not calibrated(np.zeros(4), [0.1, 0.9]).feasible.any()


def test_counts_of_scores_at_floor_and_ceiling():
    result = calibrated([0, 1e-7, 0.5, 1, 1 - 1e-7])
    assert (result.floored, result.ceiled) == (2, 2)


@pytest.mark.parametrize(
    ("scores", "pi", "floor", "message"),
    [
        *(([0.2], pi, FLOOR, "retaining prob") for pi in ([0.0], [1.0], [0.5, 1.2], [])),
        ([0.2, np.nan], GRID, FLOOR, "scores"),
        ([], GRID, FLOOR, "at least one"),
        *(([0.2, 1.0], GRID, floor, "score floor") for floor in (0.0, 5e-17, 0.5, np.nan)),
    ],
)
def test_what_has_no_power_to_find_is_refused(scores, pi, floor, message):
    with pytest.raises(ValueError, match=message):
        calibrate(np.array(scores, dtype=np.float64), np.array(pi), floor)
