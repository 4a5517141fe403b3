"""Who leads by a metric, and who is not told apart from that: one verdict for all results."""

from __future__ import annotations

import pandas as pd

LEVEL = 0.05  # below it, a method counts as told apart from the best


def standing(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the best methods, several if they are equal, and those not told apart from them.

    Args:
        rows: `statistics` rows of one metric and dataset, by method.
    """
    highest = rows["value"].reindex(rows["best"].dropna().unique()).max()  # NaN: it is not shown
    best = rows.index[rows["value"] == highest]
    near = rows.index[rows["p_value"].astype(float) >= LEVEL]
    return list(best), [method for method in near if method not in best]
