"""The steps repeated in float32, and the first draws of a budget; free of torch, for the plan."""

FIRST_DRAWS = 1  # of a budget


def is_repeated(block: int) -> bool:
    """Return whether a step of a block is repeated in float32, for a model in half precision.

    Blocks 0, 1, 2, 4, 8, … of a dataset are, regardless of shards: a larger share of small
    datasets.
    """
    return block & (block - 1) == 0
