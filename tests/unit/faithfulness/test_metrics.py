"""Soft-NS and Soft-NC of a step."""

from __future__ import annotations

import numpy as np
import pytest

from pisoft.faithfulness.metrics import soft_nc, soft_ns


@pytest.mark.parametrize(
    ("clamp", "first", "second"), [("draw", 0.2, 0.3), ("mean", 0.0, 0.2), ("none", -0.2, 0.2)]
)
def test_soft_ns_is_clamped_where_the_setting_says(clamp, first, second):
    assert soft_ns(0.5, [0.9, 0.3], clamp) == pytest.approx(first)
    assert soft_ns(0.5, [0.55, 0.2], clamp) == pytest.approx(second if clamp == "draw" else 0.25)
    h0, distances = np.array([[0.5], [0.5]]), np.array([[[0.9, 0.3]], [[0.6, 0.2]]])
    np.testing.assert_allclose(soft_ns(h0, distances, clamp), [[first], [second]], atol=1e-12)


def test_soft_nc_may_exceed_one():
    assert soft_nc(0.5, [0.25, 0.5]) == pytest.approx(0.75)
    assert soft_nc(0.5, [1, 0.5]) == pytest.approx(1.5)
