"""Agreement of metrics on the order of the methods: Kendall's τ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from pisoft.statistics.estimates import Estimates
from pisoft.statistics.metrics import AVERAGE, METRICS, RANKING_METRICS, TOKENS_CHANGED
from pisoft.statistics.orders import kendall_taus, oriented_values

SOFT_METRICS = (
    *("auc_pi_soft_ns", "auc_pi_soft_nc", "auc_low_pi_soft_ns", "auc_low_pi_soft_nc"),
    *("ratio_auc_pi_soft_ns", "ratio_auc_pi_soft_nc", "soft_ns", "soft_nc"),
    *("lds", "lds_given_count", "faithfulness_correlation", "infidelity"),
)

Labels = Mapping[tuple[str, str], str]
"""Label of each metric, by protocol (empty without one) and name."""


def ordering_metrics(statistics: pd.DataFrame) -> tuple[Labels, Labels]:
    """Return the metrics to compare, those without a protocol last, and the metrics left out.

    Metrics without any value in the results of a model are left out, unless all lack values.
    """
    candidates = {
        (protocol, metric): f"{METRICS[metric].name} · {protocol}"
        for protocol in filter(None, statistics["protocol"].unique())
        for metric in SOFT_METRICS
    }
    optional = (TOKENS_CHANGED,) if (statistics["metric"] == TOKENS_CHANGED).any() else ()
    candidates |= {("", name): METRICS[name].name for name in (*RANKING_METRICS, *optional)}
    present = set(oriented_values(statistics).reset_index(["model", "dataset"]).index)
    compared = {key: label for key, label in candidates.items() if key in present} or candidates
    return compared, {key: label for key, label in candidates.items() if key not in compared}


def metric_agreement(
    statistics: pd.DataFrame, metrics: Labels, datasets: Iterable[str]
) -> pd.DataFrame:
    """Compare the orders that every two metrics give to the methods.

    τ = 1 means the same order from better to worse, even if lower is better for one of the metrics.
    A pair excludes methods that lack a value in either metric.

    Returns:
        Every two metrics once, for the mean over datasets and for each dataset: `dataset`,
        `protocol`, `metric`, `other` and its protocol as `part`, τ-b as `value`, and the number of
        methods as `n`.
    """
    values = oriented_values(statistics).droplevel("model")
    keys = [
        (name, *one, *other)
        for name in (AVERAGE, *datasets)
        for one, other in combinations(metrics, 2)
    ]
    rows = pd.DataFrame(keys, columns=["dataset", "protocol", "metric", "part", "other"])
    first, second = (
        values.reindex(pd.MultiIndex.from_frame(rows[[*names, "dataset"]])).to_numpy()
        for names in (["protocol", "metric"], ["part", "other"])
    )
    n = np.isfinite(first + second).sum(axis=1)
    return rows.assign(value=kendall_taus(first, second), n=n)


def resampled_agreement(
    estimates: Estimates, metric: str, compared: Collection[str]
) -> Iterator[pd.DataFrame]:
    """Yield the agreement of a metric without a protocol with other metrics.

    Estimates are by metric, protocol, model and method; both orders of a τ use the same resample.
    Rows, by model, `protocol` and other metric (`other`), have τ-b with its interval, and the
    counts of the method with the fewest samples.
    """
    values = estimates.replicates.to_numpy()
    columns = estimates.replicates.columns.to_frame(index=False)
    cells = columns.groupby(["metric", "protocol", "model"], sort=False)["method"]
    method_indices = {cell: dict(zip(names, names.index, strict=True)) for cell, names in cells}
    signs = {name: -1 if METRICS[name].best == "lowest" else 1 for name in (metric, *compared)}
    for (other, protocol, model), second in method_indices.items():
        first = method_indices.get((metric, "", model), {})
        methods = [name for name in first if name in second]
        if other in compared and methods:
            left, right = ([index[name] for name in methods] for index in (first, second))
            taus = kendall_taus(signs[metric] * values[:, left], signs[other] * values[:, right])
            keys = {"metric": metric, "protocol": protocol, "model": model, "other": other}
            names = pd.MultiIndex.from_tuples([(*keys.values(),)], names=[*keys])
            counts = estimates.counts.iloc[[*left, *right]]
            size = counts.agg({**dict.fromkeys(counts, "min"), "n_failed": "max"})
            resampled = pd.DataFrame(taus[:, None], columns=names)
            yield Estimates(resampled, pd.DataFrame([size], names)).table()
