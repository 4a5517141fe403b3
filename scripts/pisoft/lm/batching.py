"""Cutting work into blocks and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pisoft.errors import BenchmarkError

Item = TypeVar("Item")


def blocks(items: Sequence[Item], size: int, chosen: slice = slice(None)) -> list[list[Item]]:
    """Cut a table's samples into fixed blocks of consecutive ones and return those chosen.

    Batches never cross a block, so any run over whole blocks gives the same bits.

    Args:
        items: all samples, in file order.
        size: samples per block.
        chosen: slice of samples; its ends must lie on block borders.

    Raises:
        BenchmarkError: the slice cuts a block.
    """
    first, last, _ = chosen.indices(len(items))
    if first % size or (last % size and last != len(items)):
        raise BenchmarkError(
            f"samples {first}:{last} cut a block; both ends must be multiples of {size} or the end"
        )
    return [list(items[start : min(start + size, last)]) for start in range(first, last, size)]


def token_batches(
    items: Sequence[Item], length: Callable[[Item], int], budget: int
) -> Iterator[list[Item]]:
    """Group items, longest first, so that padded length times count stays within the budget.

    A single item longer than the budget makes a batch of its own.
    """
    batch: list[Item] = []
    for item in sorted(items, key=length, reverse=True):
        widest = length(batch[0]) if batch else length(item)
        if batch and widest * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
