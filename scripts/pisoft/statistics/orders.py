"""Orders of the methods: ranks, agreement of two orders, and the influence of single datasets."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pisoft.statistics.metrics import DECIMALS, METRICS, Best

FEWEST_METHODS = 2  # of an order
CELL = ["protocol", "model", "metric", "dataset"]


def ranks(values: np.ndarray, best: Best) -> np.ndarray:
    """Return ranks of values (M,) or (B, M) along the last axis, 1 at the `best` end of the scale.

    Ties, equal to 12 decimals, share their mean rank; NaN has none.
    """
    rows = pd.DataFrame(np.atleast_2d(values).round(DECIMALS))
    return rows.rank(axis=1, ascending=best == "lowest").to_numpy().reshape(np.shape(values))


def kendall_taus(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """Return Kendall's τ-b along the last axis, (…), over the methods with a number in both orders.

    Both are (…, M) and broadcast; numbers equal to 12 decimals are ties. NaN with fewer than two
    methods, or where an order is all ties.
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
    """Return the numbers of `statistics` with higher as better, cells × methods.

    Cells (:data:`CELL`) keep their order of appearance.
    """
    rows = statistics.dropna(subset="value")
    lowest = rows["metric"].isin([name for name, m in METRICS.items() if m.best == "lowest"])
    rows = rows.assign(value=rows["value"].mask(lowest, -rows["value"]))
    return rows.set_index([*CELL, "method"])["value"].unstack("method", sort=False)


def best_methods(ranks: pd.Series) -> tuple[str, ...]:
    """Return the methods that share the first rank; none if there is no rank."""
    return tuple(ranks.index[ranks == ranks.min()])


def leave_one_out(values: pd.DataFrame, best: Best) -> pd.DataFrame:
    """Return the mean over datasets and its rank for every method, with each dataset left out.

    `values` are datasets × methods; a method without a value in a remaining dataset has no mean.
    Columns are `other` (the dataset left out; first "", for none, which is the only one if there is
    a single dataset), `method`, `value` and `rank`.
    """
    left_out = ["", *values.index] if len(values) > 1 else [""]
    means = pd.DataFrame(
        [values.drop(index=name, errors="ignore").mean(skipna=False) for name in left_out],
        index=pd.Index(left_out, name="other"),
    )
    rows = means.rename_axis(columns="method").stack(future_stack=True).rename("value")
    return rows.reset_index().assign(rank=ranks(means.to_numpy(), best).ravel())


def order_changes(averages: pd.DataFrame) -> pd.DataFrame:
    """Compare the orders of :func:`leave_one_out` with the order on all datasets.

    Columns, for each dataset left out (`other`): `kendall_tau` (τ-b) of the two orders, `best`, the
    tuple of methods sharing the first rank, and `best_differs`, whether it differs from that on
    all.
    """
    orders = averages.set_index(["other", "method"])["rank"].unstack(sort=False)
    best = [best_methods(order) for _, order in orders.iterrows()]
    changes = {"kendall_tau": kendall_taus(orders.loc[""], orders), "best": best}
    changes["best_differs"] = [names != best[0] for names in best]
    return pd.DataFrame(changes, orders.index).reset_index()
