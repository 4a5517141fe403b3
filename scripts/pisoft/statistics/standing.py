"""The best methods by a metric, and those not significantly different from them."""

from __future__ import annotations

import pandas as pd

from pisoft.statistics.metrics import DECIMALS

LEVEL = 0.05  # below it, a method differs significantly from the best


def standing(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the best methods, several if equal, and those not significantly different from them.

    Args:
        rows: `statistics` rows of one metric and dataset, by method.
    """
    values = rows["value"].round(DECIMALS)
    highest = values.reindex(rows["best"].dropna().unique()).max()  # NaN: it is not shown
    best = rows.index[values == highest]
    near = rows.index[rows["p_value"].astype(float) >= LEVEL]
    return list(best), [method for method in near if method not in best]
