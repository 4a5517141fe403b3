"""Blocks and batches."""

import gc
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.fake_gpu import ERRORS
from helpers.limited_memory import Memory
from pisoft.models.batching import (
    attempt,
    blocks,
    fitted_batches,
    is_out_of_memory,
    token_batches,
)


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120))
def test_batches_cover_every_item_once_within_the_budget(lengths, budget):
    items = list(enumerate(lengths))
    batches = list(token_batches(items, lambda item: item[1], budget))
    assert sorted(item for batch in batches for item in batch) == items
    for batch in batches:
        widest = max(length for _, length in batch)
        assert len(batch) == 1 or widest * len(batch) <= budget


def test_blocks_of_an_aligned_slice_are_blocks_of_the_whole():
    items = list(range(10))
    whole = blocks(items, 4)
    assert whole == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert blocks(items[4:8], 4) == [whole[1]]
    assert blocks(items[8:], 4) == [whole[2]]
    assert blocks([], 4) == []


# Memory ---------------------------------------------------------------------------------------


def tokens(item):
    return item[1]


def never(item):
    raise AssertionError(f"{item} is given up")


@settings(max_examples=40)
@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 2000), st.integers(1, 400))
def test_items_run_once_in_order_and_only_oversized_ones_are_given_up(lengths, budget, memory):
    items, budgets, given_up, fitted = list(enumerate(lengths)), [], [], []

    def work(batch, budget):
        budgets.append(budget)
        if tokens(batch[0]) * len(batch) > memory:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        fitted.append(list(batch))
        return list(batch)

    def give_up(item):
        given_up.append(item)
        return [item]

    done = list(fitted_batches(items, tokens, budget, work, give_up))
    assert [item for batch in done for item in batch] == sorted(items, key=tokens, reverse=True)
    assert sorted(given_up) == [item for item in items if tokens(item) > memory]
    assert all(tokens(batch[0]) * len(batch) <= memory for batch in fitted)
    assert budgets == sorted(budgets, reverse=True), "a lower budget stays"
    if budgets and budgets[-1] == budget and not given_up:
        assert done == list(token_batches(items, tokens, budget)), "nothing is split unnecessarily"


def test_the_budget_is_lowered_before_an_item_is_given_up():
    budgets = []

    def work(batch, budget):
        budgets.append(budget)
        if budget > 12:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return batch

    assert list(fitted_batches([("a", 5)], tokens, 80, work, never)) == [[("a", 5)]]
    assert budgets == [80, 40, 20, 10]


@pytest.mark.parametrize("alone", [True, False])
def test_memory_of_a_failed_attempt_is_freed_before_the_next(alone):
    graphs = []

    def work(batch, budget):
        still_there = [graph() for graph in graphs]
        graph = torch.ones(3, requires_grad=True) * 2
        graph.loop = [graph]  # like those created by hooks
        graphs.append(weakref.ref(graph))
        if alone or len(graphs) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return still_there

    def give_up(item):
        return [graph() for graph in graphs]

    items = [("a", 1)] if alone else [("a", 1), ("b", 1)]
    gc.disable()
    try:
        assert next(fitted_batches(items, tokens, len(items), work, give_up)) == [None]
    finally:
        gc.enable()


def test_cpu_out_of_memory_errors_are_recognised():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.uint8)  # a petabyte
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_gpu_out_of_memory_errors_are_recognised(error):
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error", [RuntimeError("mat1 and mat2 shapes"), ValueError("can't allocate memory")]
)
def test_other_errors_are_not_mistaken_for_out_of_memory(error):
    calls = []

    def work(batch, budget):
        calls.append(batch)
        raise error

    assert not is_out_of_memory(error)
    with pytest.raises(type(error)) as caught:
        list(fitted_batches([("a", 5), ("b", 5)], tokens, 100, work, never))
    assert caught.value is error
    assert len(calls) == 1


def test_a_backward_pass_out_of_memory_frees_its_graph():
    """On a CPU, torch's engine would otherwise keep the rest of the graph until the next pass."""
    inputs = torch.ones(1000, requires_grad=True)
    with Memory() as memory:

        def work():
            branches = [inputs.exp().exp() for _ in range(4)]
            output = torch.stack(branches).sum()
            memory.limit = memory.held + 1000
            return torch.autograd.grad(output, inputs)

        assert attempt(work) is None
        assert memory.held == 0
