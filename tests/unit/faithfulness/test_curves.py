"""Areas under curves against closed forms."""

import numpy as np
import pytest

from pisoft.faithfulness.curves import auc, auc_full

GRID = np.array([round(0.05 * k, 2) for k in range(1, 20)])


def test_auc_of_a_constant_is_the_span_of_the_grid():
    assert auc(GRID, np.ones(19)) == pytest.approx(0.9)


def test_auc_of_a_line_is_exact_on_an_uneven_grid():
    grid = np.array([0.1, 0.2, 0.7])
    assert auc(grid, 3 * grid) == pytest.approx(3 * (0.7**2 - 0.1**2) / 2)


def test_auc_works_along_the_last_axis_only():
    values = np.random.default_rng(0).random((2, 3, 19))
    areas = auc(GRID, values)
    assert areas.shape == (2, 3)
    by_hand = sum(0.05 * (values[1, 2, k] + values[1, 2, k + 1]) / 2 for k in range(18))
    assert areas[1, 2] == pytest.approx(by_hand)


@pytest.mark.parametrize("metric", ["pi_soft_ns", "pi_soft_nc"])
def test_auc_full_adds_zero_at_none_retained_and_one_at_all_retained(metric):
    assert auc_full(GRID, GRID, metric) == pytest.approx(0.5)
    grid = np.array([0.2, 0.6])
    by_hand = 0.2 * (0 + 3) / 2 + 0.4 * (3 + 5) / 2 + 0.4 * (5 + 1) / 2
    assert auc_full(grid, np.array([3.0, 5.0]), metric) == pytest.approx(by_hand)


def test_auc_full_refuses_a_metric_whose_ends_are_unknown():
    with pytest.raises(ValueError, match="accuracy"):
        auc_full(GRID, GRID, "accuracy")


@pytest.mark.parametrize("grid", [[0.5], [0.5, 0.5], [0.9, 0.1], [[0.1, 0.2]]])
def test_a_grid_that_does_not_increase_is_refused(grid):
    with pytest.raises(ValueError, match="increasing"):
        auc(np.array(grid), np.zeros(len(grid)))


def test_values_that_do_not_fit_the_grid_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        auc(GRID, np.zeros(18))


def test_a_grid_that_reaches_the_ends_is_refused_by_auc_full():
    with pytest.raises(ValueError, match="increasing"):
        auc_full(np.array([0.0, 0.5]), np.zeros(2), "pi_soft_ns")
