"""Confidence intervals of means."""

import pandas as pd
import pytest
import scipy.stats

from pisoft.statistics.intervals import half_widths


@pytest.mark.parametrize("n", [2, 3, 16, 400])
def test_half_widths_are_those_of_the_distribution(n):
    errors, counts = pd.Series([0.5, 0.5, 0.5]), pd.Series([n, 1, 0])
    found = half_widths(errors, counts)
    assert found[0] == pytest.approx(0.5 * scipy.stats.t.ppf(0.975, n - 1))
    assert found[1:].isna().all()
