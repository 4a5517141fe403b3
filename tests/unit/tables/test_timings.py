"""The table of times and memory of attribution: digits, and the mean agreement with float32."""

import numpy as np
import pytest

from helpers.result_rows import frame, result_row
from pisoft.formatting import NOTHING
from pisoft.statistics.timings import AGREEMENT
from pisoft.tables.notes import float32_agreement
from pisoft.tables.timings import _milliseconds
from pisoft.views.view import Results


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0"), (0.00996, "10"), (0.0996, "100"), (0.0000213, "0.021"), (0.3104, "310"),
        (0.0015, "1.5"), (45.2, "45000"), (np.nan, NOTHING),
    ],
)  # fmt: skip
def test_times_have_two_significant_digits(seconds, text):
    assert _milliseconds(seconds) == text


def test_agreement_with_float32_is_the_mean_over_all_steps():
    rows = [
        result_row("timings", value, metric=AGREEMENT, method="mine", model=model, n=n)
        for model, value, n in (("llama", 0.9, 3), ("mistral", 0.5, 1))
    ]
    note = float32_agreement(Results(frame(rows), {"mine": "Mine"}, {}))
    assert "those in float32: Mine 0.800 (n = 4)." in note
    assert not float32_agreement(Results(frame(rows).iloc[:0], {}, {}))
