"""How far metrics agree on which method is better: Kendall's τ between their orders of methods."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import AVERAGE, METRICS

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
SMALLEST_ORDER = 2  # methods
COLUMNS = (
    "dataset",
    "protocol",
    "metric",
    "other_protocol",
    "other",
    "kendall_tau",
    "p_value",
    "n_methods",
)


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
    asked = (
        *(
            OrderingMetric(protocol, metric, f"{label} · {protocol}")
            for protocol in statistics["protocol"].dropna().unique()
            for metric, label in SOFT_METRICS.items()
        ),
        *(OrderingMetric(None, metric, label) for metric, label in RANKING_METRICS.items()),
    )
    found = {key[:2] for key in _orders(statistics)}
    shown = tuple(metric for metric in asked if _key(metric) in found) or asked
    return shown, tuple(metric for metric in asked if metric not in shown)


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
        Every two metrics once per dataset: dataset, protocol, metric, other_protocol, other,
        kendall_tau (τ-b; NaN with fewer than two methods, or where a metric finds all equal),
        p_value (two-sided, of orders without any association) and n_methods.
    """
    orders = _orders(statistics)
    nothing = pd.Series(dtype=np.float64)
    rows = [
        {
            "dataset": dataset,
            "protocol": first.protocol,
            "metric": first.metric,
            "other_protocol": second.protocol,
            "other": second.metric,
            **_compared(
                orders.get((*_key(first), dataset), nothing),
                orders.get((*_key(second), dataset), nothing),
            ),
        }
        for dataset in (AVERAGE, *datasets)
        for first, second in itertools.combinations(metrics, 2)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


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


def _orders(statistics: pd.DataFrame) -> dict[tuple[str, str, str], pd.Series]:
    """Return by protocol, metric and dataset the methods' values, higher always better."""
    found = statistics.dropna(subset="value")
    groups = found.assign(protocol=found["protocol"].fillna("")).groupby(
        ["protocol", "metric", "dataset"]
    )
    return {
        (protocol, metric, dataset): _sign(metric) * rows.set_index("method")["value"]
        for (protocol, metric, dataset), rows in groups
    }


def _sign(metric: str) -> int:
    return -1 if METRICS[metric].best == "lowest" else 1


def _compared(first: pd.Series, second: pd.Series) -> dict[str, float]:
    """Return τ-b of two metrics' values over the methods that both have."""
    from scipy.stats import kendalltau  # takes half a second, which agreement of methods saves

    common = first.index.intersection(second.index)
    if len(common) < SMALLEST_ORDER:
        return {"kendall_tau": np.nan, "p_value": np.nan, "n_methods": len(common)}
    found = kendalltau(first[common], second[common])
    return {
        "kendall_tau": found.statistic,
        "p_value": found.pvalue,
        "n_methods": len(common),
    }
