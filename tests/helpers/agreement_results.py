"""Hand-made results on the agreement of methods and of metrics."""

from __future__ import annotations

from pisoft.statistics.metrics import RANKING_METRICS, TOKENS_CHANGED

METHODS = {"random": "Random", "attention": "Attention", "mine": "$ Mine_{ <b>"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
UNROUTED = (*RANKING_METRICS, TOKENS_CHANGED)
NS, NC, DELETION, INSERTION = "auc_pi_soft_ns", "auc_pi_soft_nc", "deletion_auc", "insertion_auc"
CELL = {"model": "llama"}
VALUES = {
    ("random", "attention", "sst2"): (0.2, 0.1),
    ("random", "mine", "sst2"): (-0.4, 0.3),
    ("attention", "mine", "sst2"): (1.0, 0.9),
    ("random", "attention", "imdb"): (0.6, 0.2),
    ("random", "mine", "imdb"): (None, None),
    ("attention", "mine", "imdb"): (0.5, 0.8),
}


def agreement_rows(values):
    """Return rows of `method_agreement`; `values` = {(method, other, dataset): (τ, overlap)}."""
    return [
        {
            **CELL, "dataset": dataset, "method": method, "other": other, "metric": metric,
            "value": value, "standard_error": None if value is None else 0.03,
            "n": 0 if value is None else 10, "n_failed": 10 if value is None else 0,
        }
        for (method, other, dataset), pair in values.items()
        for metric, value in zip(("kendall_tau", "top_overlap"), pair, strict=True)
    ]  # fmt: skip


def metric_rows(values, protocol="dynamic", datasets=("average",)):
    """Return rows of `statistics`; `values` = {metric: values of the methods a, b, …}."""
    return [
        {
            **CELL, "protocol": "" if metric in UNROUTED else protocol, "metric": metric,
            "dataset": dataset, "method": method, "value": value,
        }
        for metric, numbers in values.items()
        for dataset in datasets
        for method, value in zip("abcdefghijklm", numbers, strict=False)
    ]  # fmt: skip
