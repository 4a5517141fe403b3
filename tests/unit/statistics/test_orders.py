"""Orders of methods: τ-b against SciPy, ties by rounding, direction."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from pisoft.statistics.orders import kendall_taus, oriented_values
from viewing import results


def test_taus_equal_scipys_row_by_row_with_ties_and_missing_numbers():
    first, second = np.random.default_rng(2).integers(4, size=(2, 50, 6)).astype(float)
    second[:20, 2] = np.nan
    for tau, x, y in zip(kendall_taus(first, second), first, second, strict=True):
        compared = np.isfinite(y)
        assert tau == pytest.approx(kendalltau(x[compared], y[compared]).statistic, nan_ok=True)
    alike = np.broadcast_to(first[0], second.shape)
    np.testing.assert_array_equal(kendall_taus(first[0], second), kendall_taus(alike, second))


@pytest.mark.parametrize("first", [[1.0], [], [1.0, 1.0], [1.0, np.nan]])
def test_without_two_untied_methods_there_is_no_tau(first):
    assert np.isnan(kendall_taus(first, np.arange(float(len(first)))))


def test_numbers_that_differ_by_rounding_alone_are_ties():
    assert kendall_taus([1.0, 1 + 1e-14, 2], [3.0, 3, 4]) == 1


def test_cells_keep_their_order_and_lower_is_turned_into_higher():
    rows = [
        {"metric": metric, "method": method, "value": value}
        for metric, method, value in (
            ("soft_nc", "mine", 0.5),
            ("insertion_auc", "mine", 0.5),
            ("insertion_auc", "random", 0.75),
            ("soft_ns", "mine", None),
        )
    ]
    values = oriented_values(results("statistics", rows))
    assert list(values.index.get_level_values("metric")) == ["soft_nc", "insertion_auc"]
    assert values.iloc[1].tolist() == [-0.5, -0.75]
