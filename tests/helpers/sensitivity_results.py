"""Results of the sensitivity of orders, made by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import pandas as pd

from helpers.script_runs import display_settings
from pisoft.statistics.reading import Files
from pisoft.statistics.results import summary_table
from pisoft.store.parquet import write_table
from pisoft.views.view import View

CELL = {"protocol": "dynamic", "model": "llama"}
METRICS = ("auc_pi_soft_ns", "auc_pi_soft_nc")
METHODS = {"random": "Random", "saliency": "Saliency", "mine": "$ M_{"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
WHY = "a single draw is stored"
# By alternative: τ, best methods, whether they change, change of a rank.
NUMBERS = {
    "squared_distance": (1.0, "mine", 0.0, 0.0),
    "clamp_none": (-0.5, "random, saliency", 1.0, 1.5),
    "median": (0.25, "saliency", 1.0, 2.0),
    "single_draw": (None, "", None, None),
    "half_samples": (0.625, "", 0.15, 1.25),
}


def view(folder: Path, why: str | None = None, datasets: dict[str, str] = DATASETS) -> View:
    """Write results of a model to a file, and return the view of them.

    Args:
        folder: of the file.
        why: None: each alternative has its numbers; else none has any, for this reason.
        datasets: those beside the average.
    """
    rows = []
    for metric, dataset, name in itertools.product(METRICS, (*datasets, "average"), NUMBERS):
        if name == "clamp_none" and metric == "auc_pi_soft_nc":
            continue
        tau, best, changes, rank = (None, "", None, None) if why else NUMBERS[name]
        row = {**CELL, "metric": metric, "dataset": dataset, "part": name, "n": 18, "n_failed": 2}
        ends = {} if tau is None else {"low": tau - 0.25, "high": min(1.0, tau + 0.125)}
        rows += [
            {**row, **ends, "value": tau, "text": (why or WHY) if tau is None else ""},
            {**row, "other": "n_methods", "value": 0 if tau is None else 3},
            {**row, "other": "best_changes", "value": changes, "text": best},
            {**row, "other": "rank_change", "value": rank},
        ]
    path = folder / "sensitivity.parquet"
    write_table(path, "sensitivity", summary_table("sensitivity", [pd.DataFrame(rows)]), {})
    settings = display_settings(models={"llama": "Llama"}, datasets=datasets, methods=METHODS)
    return View(Files({"sensitivity": [path]}), settings, CELL)
