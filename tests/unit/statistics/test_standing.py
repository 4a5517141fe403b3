"""The best methods of a column: ties do not depend on the last bit of a sum."""

import numpy as np
import pandas as pd

from pisoft.statistics.standing import standing


def test_methods_that_differ_in_the_last_bit_are_both_best():
    tie = 0.1 + 0.2  # 0.30000000000000004
    numbers = {"value": [0.3, tie, 0.2, 0.1, np.nan], "p_value": [1.0, None, 0.5, 0.01, None]}
    rows = pd.DataFrame({**numbers, "best": "b"}, index=[*"abcde"])
    assert standing(rows) == (["a", "b"], ["c"])
