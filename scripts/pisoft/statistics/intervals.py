"""How far a mean over samples may be from the mean of the population."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import stdtrit

UPPER_END = 0.975  # of a central interval of 95 %


def half_widths(standard_errors: pd.Series, n: pd.Series) -> pd.Series:
    """Return the half-widths of the 95 % confidence intervals of means, by Student's t.

    Args:
        standard_errors: of the means.
        n: samples in each mean; fewer than two have no interval, NaN.
    """
    freedom = (n - 1).where(n > 1).astype(np.float64)
    return standard_errors * stdtrit(freedom, UPPER_END)
