"""Orders of the methods by their numbers, and how far two orders agree."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pisoft.statistics.metrics import DECIMALS, METRICS

FEWEST_METHODS = 2  # of an order
CELL = ["protocol", "model", "metric", "dataset"]


def kendall_taus(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """Return Kendall's τ-b along the last axis, over the methods with a number in both orders.

    Args:
        first: numbers of M methods, (…, M); those equal to 12 decimals are ties.
        second: the same, of a shape that broadcasts with it.

    Returns:
        τ-b, (…); NaN with fewer than two methods, or where an order is all ties.
    """
    left, right = np.triu_indices(np.shape(first)[-1], k=1)
    rounded = (np.asarray(numbers, dtype=float).round(DECIMALS) for numbers in (first, second))
    signs = [np.sign(numbers[..., left] - numbers[..., right]) for numbers in rounded]
    compared = np.isfinite(signs[0]) & np.isfinite(signs[1])
    first_signs, second_signs = (np.where(compared, sign, 0.0) for sign in signs)
    untied = (first_signs**2).sum(axis=-1) * (second_signs**2).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray((first_signs * second_signs).sum(axis=-1) / np.sqrt(untied))


def oriented_values(statistics: pd.DataFrame) -> pd.DataFrame:
    """Return the methods' numbers so that higher is better, a row per cell with a number.

    Args:
        statistics: rows of kind `statistics`.

    Returns:
        Cells (:data:`CELL`) in their order of appearance, by methods.
    """
    rows = statistics.dropna(subset="value")
    lowest = rows["metric"].isin([name for name, of in METRICS.items() if of.best == "lowest"])
    rows = rows.assign(value=rows["value"].mask(lowest, -rows["value"]))
    return rows.set_index([*CELL, "method"])["value"].unstack("method", sort=False)


def best_methods(ranks: pd.Series) -> tuple[str, ...]:
    """Return the methods that share the first rank; none if there is no rank."""
    return tuple(ranks.index[ranks == ranks.min()])
