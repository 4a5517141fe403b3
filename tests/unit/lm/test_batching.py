"""Blocks and batches."""

import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pisoft.errors import BenchmarkError
from pisoft.lm.batching import blocks, fitted_batches, is_out_of_memory, token_batches


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120))
def test_batches_hold_every_item_once_within_the_budget(lengths, budget):
    items = list(enumerate(lengths))
    batches = list(token_batches(items, lambda item: item[1], budget))
    assert sorted(item for batch in batches for item in batch) == items
    for batch in batches:
        widest = max(length for _, length in batch)
        assert len(batch) == 1 or widest * len(batch) <= budget


def test_blocks_of_whole_blocks_are_those_of_all():
    items = list(range(10))
    whole = blocks(items, 4)
    assert whole == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert blocks(items[4:8], 4) == [whole[1]]
    assert blocks(items[8:], 4) == [whole[2]]
    assert blocks([], 4) == []


# Memory ---------------------------------------------------------------------------------------


def tokens(item):
    return item[1]


def describe(item):
    return f"item {item[0]}"


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 2000), st.integers(50, 400))
@pytest.mark.slow
def test_every_item_is_worked_on_once_in_order_whatever_the_memory(lengths, budget, memory):
    items = list(enumerate(lengths))
    budgets = []

    def work(batch, budget):
        budgets.append(budget)
        if tokens(batch[0]) * len(batch) > memory:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return list(batch)

    done = list(fitted_batches(items, tokens, budget, work, describe))
    assert [item for batch in done for item in batch] == sorted(items, key=tokens, reverse=True)
    assert all(tokens(batch[0]) * len(batch) <= memory for batch in done)
    assert budgets == sorted(budgets, reverse=True), "a lower budget stays"
    if budgets and budgets[-1] == budget:
        assert done == list(token_batches(items, tokens, budget)), "nothing is cut without need"


def test_work_that_cuts_a_batch_by_the_budget_is_helped_before_anything_is_given_up():
    budgets = []

    def work(batch, budget):
        budgets.append(budget)
        if budget > 12:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return batch

    assert list(fitted_batches([("a", 5)], tokens, 80, work, describe)) == [[("a", 5)]]
    assert budgets == [80, 40, 20, 10]


def test_an_item_that_does_not_fit_alone_is_named():
    def work(batch, budget):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(BenchmarkError, match=r"item b: 7 tokens do not fit .*prompts\.max_tokens"):
        list(fitted_batches([("a", 5), ("b", 7)], tokens, 100, work, describe))


def test_the_memory_of_a_failed_attempt_is_freed_before_the_next():
    alive = []

    def work(batch, budget):
        assert not any(reference() is not None for reference in alive)
        graph = torch.ones(3, requires_grad=True) * 2
        graph.loop = [graph]  # such as hooks make
        alive.append(weakref.ref(graph))
        if len(alive) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return len(batch)

    gc.disable()
    try:
        assert next(fitted_batches([("a", 1), ("b", 1)], tokens, 2, work, describe)) == 1
    finally:
        gc.enable()
    assert len(alive) == 2


def test_the_refusal_of_the_cpu_allocator_is_recognised():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.uint8)  # a petabyte
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    "error", [RuntimeError("mat1 and mat2 shapes"), ValueError("can't allocate memory")]
)
def test_other_errors_are_not_taken_for_want_of_memory(error):
    calls = []

    def work(batch, budget):
        calls.append(batch)
        raise error

    assert not is_out_of_memory(error)
    with pytest.raises(type(error)) as caught:
        list(fitted_batches([("a", 5), ("b", 5)], tokens, 100, work, describe))
    assert caught.value is error
    assert len(calls) == 1
