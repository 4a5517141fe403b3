"""How often a cell is measured before anything is known of it; without torch, for the plan."""

FIRST_DRAWS = 1  # of a budget


def is_repeated(block: int) -> bool:
    """Tell whether a step of a block is repeated in float32, for a model in half precision.

    These are blocks 0, 1, 2, 4, 8, … of a dataset, whatever its shards: some of a small sample and
    few of a large one.
    """
    return block & (block - 1) == 0
