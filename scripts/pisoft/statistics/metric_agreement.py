"""How far metrics agree on which method is better: Kendall's τ between their orders of methods."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.orders import agreement, oriented_values

SOFT_METRICS = {
    "auc_pi_soft_ns": "π-Soft-NS",
    "auc_pi_soft_nc": "π-Soft-NC",
    "auc_low_pi_soft_ns": "π-Soft-NS, π ≤ 0.3",
    "auc_low_pi_soft_nc": "π-Soft-NC, π ≤ 0.3",
    "ratio_auc_pi_soft_ns": "π-Soft-NS, ratio of means",
    "ratio_auc_pi_soft_nc": "π-Soft-NC, ratio of means",
    "soft_ns": "Soft-NS",
    "soft_nc": "Soft-NC",
    "lds": "LDS",
    "lds_given_count": "LDS given count",
    "faithfulness_correlation": "Faithfulness correlation",
    "infidelity": "Infidelity",
}
RANKING_METRICS = {"deletion_auc": "Deletion", "insertion_auc": "Insertion"}
PAIR = ["dataset", "protocol", "metric", "other_protocol", "other"]


@dataclass(frozen=True)
class OrderingMetric:
    """A metric, under a protocol if it has one, that puts methods in an order."""

    protocol: str | None
    metric: str
    label: str


def ordering_metrics(
    statistics: pd.DataFrame,
) -> tuple[tuple[OrderingMetric, ...], tuple[OrderingMetric, ...]]:
    """Return the metrics to compare, under each protocol and those without one last.

    Args:
        statistics: rows of kind `statistics` of one model.

    Returns:
        Metrics with a value for some dataset and method, or all of them if none has any; and the
        others, which are left out.
    """
    candidates = (
        *(
            OrderingMetric(protocol, metric, f"{label} · {protocol}")
            for protocol in statistics["protocol"].dropna().unique()
            for metric, label in SOFT_METRICS.items()
        ),
        *(OrderingMetric(None, metric, label) for metric, label in RANKING_METRICS.items()),
    )
    cells = oriented_values(statistics).index
    with_values = set(zip(*map(cells.get_level_values, ("protocol", "metric")), strict=True))
    compared = tuple(one for one in candidates if _key(one) in with_values) or candidates
    return compared, tuple(one for one in candidates if one not in compared)


def metric_agreement(
    statistics: pd.DataFrame, metrics: Sequence[OrderingMetric], datasets: Iterable[str]
) -> pd.DataFrame:
    """Compare the orders that every two metrics give to the methods.

    τ = 1 says that both metrics order the methods alike from better to worse, also if lower is
    better for one of them. Methods without a value in either metric are left out of a pair.

    Args:
        statistics: rows of kind `statistics` of one model.
        metrics: that are compared.
        datasets: names, in the order of the rows; the mean over them comes first.

    Returns:
        Every two metrics once per dataset: :data:`PAIR`, and `kendall_tau` and `n_methods` of
        :func:`pisoft.statistics.orders.agreement`.
    """
    values = oriented_values(statistics).droplevel("model")
    compared = list(itertools.product((AVERAGE, *datasets), itertools.combinations(metrics, 2)))
    first, second = (
        values.reindex([(*_key(pair[side]), dataset) for dataset, pair in compared])
        for side in (0, 1)
    )
    keys = [
        (dataset, one.protocol, one.metric, other.protocol, other.metric)
        for dataset, (one, other) in compared
    ]
    return pd.DataFrame(keys, columns=PAIR).join(agreement(first, second))


def agreement_matrix(
    rows: pd.DataFrame, metrics: Sequence[OrderingMetric], dataset: str
) -> np.ndarray:
    """Return one dataset's τ, each pair in the line of its second metric; NaN elsewhere.

    Args:
        rows: as :func:`metric_agreement` returns them for these metrics.
        metrics: that are compared, R of them.
        dataset: name, or `average`.

    Returns:
        Lower triangle, shape (R, R).
    """
    matrix = np.full((len(metrics), len(metrics)), np.nan)
    columns, lines = np.triu_indices(len(metrics), k=1)  # the order of the rows
    matrix[lines, columns] = rows.loc[rows["dataset"] == dataset, "kendall_tau"]
    return matrix


def _key(metric: OrderingMetric) -> tuple[str, str]:
    return metric.protocol or "", metric.metric
