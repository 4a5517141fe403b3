"""How far metrics agree on which method is better: Kendall's τ between their orders of methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import AVERAGE, METRICS, RANKING_METRICS
from pisoft.statistics.orders import kendall_taus, oriented_values

SOFT_METRICS = (
    *("auc_pi_soft_ns", "auc_pi_soft_nc", "auc_low_pi_soft_ns", "auc_low_pi_soft_nc"),
    *("ratio_auc_pi_soft_ns", "ratio_auc_pi_soft_nc", "soft_ns", "soft_nc"),
    *("lds", "lds_given_count", "faithfulness_correlation", "infidelity"),
)

Labels = Mapping[tuple[str, str], str]
"""Label of each metric, by protocol (empty without one) and name."""


def ordering_metrics(statistics: pd.DataFrame) -> tuple[Labels, Labels]:
    """Return the metrics to compare, those without a protocol last, and those that are left out.

    Left out are metrics without any value in the results of a model, unless none has one.
    """
    candidates = {
        (protocol, metric): f"{METRICS[metric].name} · {protocol}"
        for protocol in filter(None, statistics["protocol"].unique())
        for metric in SOFT_METRICS
    } | {("", metric): METRICS[metric].name for metric in RANKING_METRICS}
    present = set(oriented_values(statistics).reset_index(["model", "dataset"]).index)
    compared = {key: label for key, label in candidates.items() if key in present} or candidates
    return compared, {key: label for key, label in candidates.items() if key not in compared}


def metric_agreement(
    statistics: pd.DataFrame, metrics: Labels, datasets: Iterable[str]
) -> pd.DataFrame:
    """Compare the orders that every two metrics give to the methods.

    τ = 1 says that both metrics order the methods alike from better to worse, also if lower is
    better for one of them. Methods without a value in either metric are left out of a pair.

    Returns:
        Every two metrics once for the mean over datasets and each: `dataset`, `protocol` and
        `metric`, `other` and its protocol as `part`, τ-b as `value`, and as `n` the methods that
        it is over.
    """
    values = oriented_values(statistics).droplevel("model")
    keys = [
        (name, *one, *other)
        for name in (AVERAGE, *datasets)
        for one, other in combinations(metrics, 2)
    ]
    rows = pd.DataFrame(keys, columns=["dataset", "protocol", "metric", "part", "other"])
    first, second = (
        values.reindex(pd.MultiIndex.from_frame(rows[[*names, "dataset"]])).to_numpy(dtype=float)
        for names in (["protocol", "metric"], ["part", "other"])
    )
    n = np.isfinite(first + second).sum(axis=1)
    return rows.assign(value=kendall_taus(first, second), n=n)
