"""How far the order of the methods depends on single datasets: averages without each of them."""

from __future__ import annotations

import pandas as pd

from pisoft.statistics.estimates import ranks
from pisoft.statistics.metrics import Best
from pisoft.statistics.orders import best_methods, kendall_taus


def leave_one_out(values: pd.DataFrame, best: Best) -> pd.DataFrame:
    """Return the mean over datasets and its rank for every method, with each dataset left out.

    Args:
        values: datasets × methods, NaN where a method has no value.
        best: which end of the scale is rank 1.

    Returns:
        One row per method and dataset left out, `other`; those of all datasets (empty) come first.
        `value` is the mean over the datasets that remain, NaN if the method lacks one of them;
        `rank` is 1 for the best, ties share the mean rank, and a method without a value has none.
        Of a single dataset nothing can be left out.
    """
    parts = []
    for name in ["", *values.index] if len(values) > 1 else [""]:
        remaining = values.drop(index=name) if name else values
        means = remaining.mean(skipna=False)
        part = {"method": means.index, "value": means, "rank": ranks(means.to_numpy(), best)}
        parts.append(pd.DataFrame({"other": name, **part}))
    return pd.concat(parts, ignore_index=True)


def order_changes(averages: pd.DataFrame) -> pd.DataFrame:
    """Compare the order of the methods without each dataset with that on all of them.

    Args:
        averages: rows of :func:`leave_one_out`.

    Returns:
        One row per dataset left out, `other`, in their order: `kendall_tau` (τ-b) between the two
        orders, over the methods with a value in both (NaN below two of them, or if one order is all
        ties), `best`, a tuple of the methods that share the first rank, and `best_changes`, whether
        they are others than on all datasets.
    """
    full = averages[averages["other"] == ""].set_index("method")["rank"]
    rows = []
    for name, part in averages.groupby("other", sort=False):
        order = part.set_index("method")["rank"]
        best = best_methods(order)
        rows.append(
            {
                "other": name,
                "kendall_tau": float(kendall_taus(full.reindex(order.index), order)),
                "best": best,
                "best_changes": best != best_methods(full),
            }
        )
    return pd.DataFrame(rows)
