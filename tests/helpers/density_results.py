"""Results on density, made by hand."""

from __future__ import annotations

from itertools import product

from pisoft.statistics.density import MEASURES, METRICS

METHODS = {"random": "Random", "saliency": "Saliency", "mine": "$ M_{"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
LABELS = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": METHODS}
MEANS = {"random": 0.5, "saliency": 0.125, "mine": None}
CORRELATIONS = {"all": -0.25, "without random": 0.75}
SHOWN = (*DATASETS, "average")


def density_rows(methods=tuple(METHODS)):
    return [
        {"dataset": dataset, "method": method, "metric": measure, **mean(MEANS[method])}
        for dataset, method, measure in product(SHOWN, methods, MEASURES)
    ]


def correlation_rows(parts=tuple(CORRELATIONS), **numbers):
    return [
        {
            "protocol": "dynamic", "dataset": dataset, "metric": metric, "other": measure,
            "part": part, **mean(CORRELATIONS[part]), "p_adjusted": 0.04, **numbers,
        }
        for metric, dataset, measure, part in product(METRICS, SHOWN, MEASURES, parts)
    ]  # fmt: skip


def mean(value):
    """A mean with its interval and its samples."""
    if value is None:
        return {"model": "llama", "n": 0, "n_failed": 20}
    interval = {"low": value - 0.0625, "high": value + 0.0625}
    return {"model": "llama", "value": value, **interval, "n": 20, "n_failed": 0}
