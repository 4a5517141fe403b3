"""Rows of densities and their correlations, made by hand."""

from __future__ import annotations

import itertools

from pisoft.statistics.estimates import P_VALUES

METRICS = ("auc_pi_soft_ns", "auc_pi_soft_nc")
MEASURES = ("mean_score", "gini")
METHODS = {"random": "Random", "saliency": "Saliency", "mine": "$ M_{"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
MEANS = {"random": 0.5, "saliency": 0.125, "mine": None}
CORRELATIONS = {True: -0.25, False: 0.75}


def density_rows(methods=tuple(METHODS)):
    return [
        {
            "model": "llama", "dataset": dataset, "method": method, "measure": measure,
            **mean(MEANS[method]),
        }
        for dataset, method, measure in itertools.product((*DATASETS, "average"), methods, MEASURES)
    ]  # fmt: skip


def correlation_rows(sets=(True, False)):
    return [
        {
            "protocol": "dynamic", "model": "llama", "metric": metric, "dataset": dataset,
            "measure": measure, "with_random": with_random, **mean(CORRELATIONS[with_random]),
            **dict.fromkeys(P_VALUES, 0.04),
        }
        for metric, dataset, measure, with_random in itertools.product(
            METRICS, (*DATASETS, "average"), MEASURES, sets
        )
    ]  # fmt: skip


def mean(value):
    """A mean with its interval and its samples."""
    return {
        "value": value,
        "low": None if value is None else value - 0.0625,
        "high": None if value is None else value + 0.0625,
        "n": 0 if value is None else 20,
        "n_failed": 20 if value is None else 0,
    }
