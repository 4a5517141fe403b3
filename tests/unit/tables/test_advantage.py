"""The table of advantages: spans of π."""

import pandas as pd
import pytest

from pisoft.formatting import NOTHING
from pisoft.tables.advantage import spans_above_zero


@pytest.mark.parametrize(
    ("lows", "text"),
    [((1, 1, 1), "0.1 to 0.9"), ((0, 0, 0), NOTHING), ((1, 0, 1), "0.1, 0.9"), ((0, 1, 0), "0.5")],
)
def test_spans_of_intervals_above_zero(lows, text):
    assert spans_above_zero(pd.DataFrame({"position": [0.1, 0.5, 0.9], "low": lows})) == text
