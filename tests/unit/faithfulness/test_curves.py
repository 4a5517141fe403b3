"""Areas under curves against closed forms."""

import numpy as np
import pytest

from pisoft.faithfulness.curves import auc, auc_full

GRID = np.array([round(0.05 * k, 2) for k in range(1, 20)])
UNEVEN = np.array([0.1, 0.2, 0.7])


def test_areas_of_constants_and_lines_are_exact():
    assert auc(GRID, np.ones(19)) == pytest.approx(0.9)
    values = np.array([[3 * UNEVEN, 1 - UNEVEN], [UNEVEN, [1, 3, 2]]])
    half = (0.7**2 - 0.1**2) / 2
    expected = [[3 * half, 0.6 - half], [half, 0.1 * 2 + 0.5 * 2.5]]
    np.testing.assert_allclose(auc(UNEVEN, values), expected)


@pytest.mark.parametrize("metric", ["pi_soft_ns", "pi_soft_nc"])
def test_auc_full_adds_zero_at_none_and_one_at_all_retained(metric):
    assert auc_full(GRID, GRID, metric) == pytest.approx(0.5)
    by_hand = 0.2 * (0 + 3) / 2 + 0.4 * (3 + 5) / 2 + 0.4 * (5 + 1) / 2
    assert auc_full(np.array([0.2, 0.6]), np.array([3.0, 5.0]), metric) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("area", "grid", "count", "message"),
    [
        *((auc, grid, len(grid), "increasing") for grid in ([0.5], [0.5, 0.5], [0.9, 0.1], [[1]])),
        (auc, [0.1, 0.2], 3, "do not fit"),
        (lambda *curve: auc_full(*curve, "pi_soft_ns"), [0.0, 0.5], 2, "increasing"),
        (lambda *curve: auc_full(*curve, "accuracy"), [0.1, 0.5], 2, "accuracy"),
    ],
)
def test_curves_without_an_area_are_refused(area, grid, count, message):
    with pytest.raises(ValueError, match=message):
        area(np.array(grid), np.zeros(count))
