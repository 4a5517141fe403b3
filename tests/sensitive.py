"""Rows of the sensitivity of orders, made by hand."""

from __future__ import annotations

import itertools

import pandas as pd

METRICS = ("auc_pi_soft_ns", "auc_pi_soft_nc")
METHODS = {"random": "Random", "saliency": "Saliency", "mine": "$ M_{"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
CELL = {"protocol": "dynamic", "model": "llama"}
SETTINGS = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": METHODS}
WHY = "a single draw is stored"


def sensitivity_rows(datasets=(*DATASETS, "average")):
    """One number that is the same, one that is another, one of halves, and one that is missing."""
    return [
        {**CELL, "metric": metric, "dataset": dataset, "alternative": name, **numbers}
        for (metric, dataset), (name, numbers) in itertools.product(
            itertools.product(METRICS, datasets), NUMBERS.items()
        )
        if not (name.startswith("clamp") and metric == "auc_pi_soft_nc")
    ]


def _numbers(tau, best, changes, rank):
    missing = tau is None
    return {
        "kendall_tau": tau,
        "low": None if missing else tau - 0.25,
        "high": None if missing else min(1.0, tau + 0.125),
        "n_methods": 0 if missing else 3,
        "best": best,
        "best_changes": changes,
        "rank_change": rank,
        "n": 18,
        "n_failed": 2,
        "reason": WHY if missing else None,
    }


NUMBERS = {
    "squared_distance": _numbers(1.0, "mine", 0.0, 0.0),
    "clamp_none": _numbers(-0.5, "random, saliency", 1.0, 1.5),
    "median": _numbers(0.25, "saliency", 1.0, 2.0),
    "single_draw": _numbers(None, None, None, None),
    "half_samples": _numbers(0.625, None, 0.15, 1.25),
}


def frame(rows):
    """Return rows as a reader of the summary file gives them."""
    numbers = ("kendall_tau", "low", "high", "best_changes", "rank_change")
    return pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))
