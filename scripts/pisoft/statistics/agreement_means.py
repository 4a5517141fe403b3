"""Agreement of methods as its figure and table show it: means over datasets, and matrices."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import AVERAGE

_PAIR = ["model", "method", "other", "statistic"]


def with_average(agreement: pd.DataFrame, datasets: Collection[str]) -> pd.DataFrame:
    """Put the means over datasets, each with equal weight, in front of the datasets' own rows.

    Args:
        agreement: rows of kind `agreement`.
        datasets: names; rows of others are left out.

    Returns:
        The same columns; a mean has no value if a dataset has none, and the n and n_failed of all.
    """
    rows = agreement[agreement["dataset"].isin(datasets)]
    rows = rows.assign(variance=rows["standard_error"] ** 2)
    groups = rows.groupby(_PAIR, sort=False)
    means = groups.agg(
        value=("value", lambda column: column.mean(skipna=False)),
        standard_error=("variance", lambda column: np.sqrt(column.sum(skipna=False)) / len(column)),
        n=("n", "sum"),
        n_failed=("n_failed", "sum"),
    )
    means = means.reset_index().assign(dataset=AVERAGE)
    return pd.concat([means[agreement.columns], rows[agreement.columns]], ignore_index=True)


def triangle(rows: pd.DataFrame, statistic: str, methods: Sequence[str]) -> np.ndarray:
    """Return one dataset's values of a statistic, each pair in the line of its second method.

    Args:
        rows: as :func:`with_average` returns them, of one model and dataset.
        statistic: name.
        methods: names, in the order of lines and columns, M of them.

    Returns:
        Lower triangle, shape (M, M); NaN elsewhere and where there is no value.
    """
    chosen = rows[rows["statistic"] == statistic]
    matrix = chosen.pivot(index="other", columns="method", values="value")
    return matrix.reindex(index=methods, columns=methods).to_numpy(dtype=np.float64)
