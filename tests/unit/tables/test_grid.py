"""Grids of numbers: duplicate labels, gaps and signs."""

import pytest

from pisoft.formatting import NOTHING
from pisoft.tables.grid import (
    Entry,
    each,
    general,
    interval_text,
    p_value,
    plain,
    rank,
    ranked,
    with_interval,
)
from pisoft.views.view import MISSING


def test_rows_with_equal_labels_are_both_shown():
    assert each("method", {"a": "A", "b": "A"}) == {"A": {"method": "a"}, "A (b)": {"method": "b"}}


@pytest.mark.parametrize("show", [plain(3), with_interval, ranked, rank, general, p_value])
def test_a_missing_number_is_a_dash(show):
    assert show(MISSING) == Entry(NOTHING)


@pytest.mark.parametrize(
    ("ends", "decimals", "text"),
    [
        ((-0.12, -0.004), 2, "[\N{MINUS SIGN}.12, \N{MINUS SIGN}.00]"),
        ((-0.12, 0.004), 2, "[\N{MINUS SIGN}.12, .00]"),
        ((-0.25, 1.5), 2, "[\N{MINUS SIGN}.25, 1.50]"),
    ],
)
def test_interval_ends_that_round_to_zero_keep_their_sign(ends, decimals, text):
    assert interval_text(*ends, decimals) == text
