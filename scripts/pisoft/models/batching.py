"""Splitting work into blocks and batches."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import TypeVar

import torch

from pisoft.store.parquet import TOO_LONG_FOR_MEMORY

Item = TypeVar("Item")
Result = TypeVar("Result")

# Messages of plain RuntimeErrors from the CPU allocator, CUDA and its driver, Triton, and libraries
# that allocate a workspace; cuBLAS cannot be initialised without memory for its handle.
OUT_OF_MEMORY = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "Triton Error [CUDA]: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED",
)

logger = logging.getLogger(__name__)


def blocks(items: Sequence[Item], size: int) -> list[list[Item]]:
    """Split samples, in file order, into consecutive blocks of fixed size.

    Batches never cross blocks, and shards hold whole blocks, so sharding never changes a bit.
    """
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _alike(_: int) -> Hashable:
    return None


def token_batches(
    items: Sequence[Item], length: Callable[[Item], int], budget: int
) -> Iterator[list[Item]]:
    """Group items, longest first, so that padded length times count stays within the budget.

    An item longer than the budget is a batch of its own.
    """
    waiting = sorted(items, key=length, reverse=True)
    while waiting:
        batch = _next_batch(waiting, length, budget, _alike)
        yield batch
        del waiting[: len(batch)]


def fitted_batches(
    items: Sequence[Item],
    length: Callable[[Item], int],
    budget: int,
    work: Callable[[list[Item], int], Result],
    give_up: Callable[[Item], Result],
    kind: Callable[[int], Hashable] = _alike,
) -> Iterator[Result]:
    """Yield the result of `work` for each batch of :func:`token_batches` that fits into memory.

    When a batch runs out of memory, the budget is halved permanently, down to a single item, and
    the remaining items are batched again. A batch that already fits the lower budget is retried
    unchanged, because `work` may split it by the budget. An item that still does not fit is given
    up.

    Args:
        length: tokens of an item.
        budget: initial tokens per batch.
        work: takes a batch and the current budget; called again for a batch that failed. Never
            returns None.
        give_up: returns the result of an item that does not fit with a budget of its own length.
        kind: maps lengths to kinds; lengths of different kinds never share a batch.
    """
    waiting = sorted(items, key=length, reverse=True)
    while waiting:
        longest = length(waiting[0])
        batch = _next_batch(waiting, length, budget, kind)
        result = attempt(partial(work, batch, budget))
        if result is None and budget > longest:
            budget = max(longest, budget // 2)
            logger.info("out of memory; token_budget is lowered to %d", budget)
            continue
        del waiting[: len(batch)]
        yield give_up(batch[0]) if result is None else result


def attempt(work: Callable[[], Result]) -> Result | None:
    """Return the result of `work`, or None after freeing memory if it ran out of it."""
    try:
        return work()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Outside the handler, because the exception's frames hold the failed graph.
    _begin_backward()
    gc.collect()  # graphs may have reference cycles
    torch.cuda.empty_cache()  # no-op unless CUDA is in use
    return None


@torch.inference_mode(mode=False)
@torch.enable_grad()
def _begin_backward() -> None:
    """Begin a backward pass: until then, torch keeps the pending work of a failed one."""
    nothing = torch.zeros(0, requires_grad=True)  # takes no memory
    torch.autograd.grad(nothing * 1, nothing, nothing.detach())


def warn_too_long(name: str, tokens: int) -> None:
    """Warn that a sample is given up.

    Args:
        name: method or model, and sample.
        tokens: its length.
    """
    logger.warning(
        "%s: %d tokens do not fit into memory, even alone: %s; shorten prompts by the option "
        "prompts.max_tokens, or use a smaller dtype, quantization, or more memory",
        name,
        tokens,
        TOO_LONG_FOR_MEMORY,
    )


def _next_batch(
    waiting: Sequence[Item],
    length: Callable[[Item], int],
    budget: int,
    kind: Callable[[int], Hashable],
) -> list[Item]:
    """Return the next batch of items sorted by length, longest first."""
    longest = length(waiting[0])
    first = waiting[: max(1, budget // max(1, longest))]
    return list(takewhile(lambda item: kind(length(item)) == kind(longest), first))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether torch, a CUDA library or Python failed to allocate memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY)
