"""The best methods of a column: equal ones are all best, and a missing test makes no tie."""

import numpy as np
import pandas as pd

from pisoft.statistics.standing import standing


def test_equal_methods_are_all_best_and_untested_ones_are_not_tied():
    numbers = {"rank": [1.5, 1.5, 3, 4, 5], "p_adjusted": [1.0, np.nan, 0.05, 0.01, np.nan]}
    rows = pd.DataFrame(numbers, index=[*"abcde"])
    assert standing(rows) == (["a", "b"], ["c"])
    assert standing(rows.iloc[:0]) == ([], [])
