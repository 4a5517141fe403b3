"""Blocks and batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pisoft.commandline import sample_range
from pisoft.errors import BenchmarkError
from pisoft.lm.batching import blocks, token_batches


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120))
def test_batches_hold_every_item_once_within_the_budget(lengths, budget):
    items = list(enumerate(lengths))
    batches = list(token_batches(items, lambda item: item[1], budget))
    assert sorted(item for batch in batches for item in batch) == items
    for batch in batches:
        widest = max(length for _, length in batch)
        assert len(batch) == 1 or widest * len(batch) <= budget


def test_blocks_are_fixed_whatever_the_slice():
    items = list(range(10))
    whole = blocks(items, 4)
    assert whole == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert blocks(items, 4, slice(4, 8)) == [whole[1]]
    assert blocks(items, 4, slice(8, None)) == [whole[2]]
    assert blocks([], 4) == []


@pytest.mark.parametrize("chosen", [slice(1, 8), slice(4, 6)])
def test_a_slice_that_cuts_a_block_is_refused(chosen):
    with pytest.raises(BenchmarkError, match="multiples of 4"):
        blocks(list(range(10)), 4, chosen)


def test_sample_ranges_are_read():
    assert sample_range("0:32") == slice(0, 32)
    assert sample_range("16:") == slice(16, None)
    with pytest.raises(Exception, match="is not FIRST:LAST"):
        sample_range("five")
