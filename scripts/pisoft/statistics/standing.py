"""The best methods by a metric, and those not significantly different from them."""

from __future__ import annotations

import pandas as pd

LEVEL = 0.05  # below it, a method differs significantly from the best


def standing(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the best methods, several if equal, and those not significantly different from them.

    Args:
        rows: `statistics` rows of one metric and dataset, by method.
    """
    best = list(rows.index[rows["rank"] == rows["rank"].min()])
    near = rows.index[rows["p_adjusted"].astype(float) >= LEVEL]
    return best, [method for method in near if method not in best]
