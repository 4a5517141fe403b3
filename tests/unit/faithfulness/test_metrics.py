"""Soft-NS and Soft-NC of a step."""

from __future__ import annotations

import numpy as np
import pytest

from pisoft.faithfulness.metrics import soft_nc, soft_ns


@pytest.mark.parametrize(
    ("clamp", "first", "second"), [("draw", 0.2, 0.3), ("mean", 0.0, 0.2), ("none", -0.2, 0.2)]
)
def test_soft_ns_is_clamped_as_configured(clamp, first, second):
    assert soft_ns(0.5, [0.9, 0.3], clamp) == pytest.approx(first)
    assert soft_ns(0.5, [0.55, 0.2], clamp) == pytest.approx(second if clamp == "draw" else 0.25)
    h0, distances = np.array([[0.5], [0.5]]), np.array([[[0.9, 0.3]], [[0.6, 0.2]]])
    np.testing.assert_allclose(soft_ns(h0, distances, clamp), [[first], [second]], atol=1e-12)


def test_clamping_each_draw_makes_the_mean_independent_of_their_number():
    """A clamped mean falls with their number."""
    distances = np.random.default_rng(0).uniform(0.2, 1.0, (20_000, 15))
    means = {
        (clamp, draws): soft_ns(np.full(20_000, 0.5), distances[:, :draws], clamp).mean()
        for clamp in ("draw", "mean")
        for draws in (1, 15)
    }
    assert means["draw", 1] == pytest.approx(means["draw", 15], abs=0.005)
    assert means["mean", 15] < means["mean", 1] - 0.05


def test_soft_nc_may_exceed_one():
    assert soft_nc(0.5, [0.25, 0.5]) == pytest.approx(0.75)
    assert soft_nc(0.5, [1, 0.5]) == pytest.approx(1.5)
