"""How far methods and metrics agree, as summary files say it, made by hand."""

from __future__ import annotations

import pandas as pd

from pisoft.contracts import write_rows
from pisoft.statistics.metric_agreement import RANKING_METRICS
from rooms import write_frame
from uncertainty import statistics_row

METHODS = {"random": "Random", "attention": "Attention", "mine": "$ Mine_{ <b>"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
NS, NC, DELETION, INSERTION = "auc_pi_soft_ns", "auc_pi_soft_nc", "deletion_auc", "insertion_auc"
SETTINGS = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": METHODS}


def agreement_of(values, n=10, n_failed=0):
    """Rows of `agreement`; `values` = {(method, other, dataset): (τ, overlap)}."""
    rows = [
        {
            "model": "llama",
            "dataset": dataset,
            "method": method,
            "other": other,
            "statistic": statistic,
            "value": value,
            "standard_error": None if value is None else 0.03,
            "n": 0 if value is None else n,
            "n_failed": n if value is None else n_failed,
        }
        for (method, other, dataset), pair in values.items()
        for statistic, value in zip(("kendall_tau", "top_overlap"), pair, strict=True)
    ]
    columns = ["model", "dataset", "method", "other", "statistic", "value", "standard_error"]
    frame = pd.DataFrame(rows, columns=[*columns, "n", "n_failed"])
    return frame.astype({"value": float, "standard_error": float})


VALUES = {
    ("random", "attention", "sst2"): (0.2, 0.1),
    ("random", "mine", "sst2"): (-0.4, 0.3),
    ("attention", "mine", "sst2"): (1.0, 0.9),
    ("random", "attention", "imdb"): (0.6, 0.2),
    ("random", "mine", "imdb"): (None, None),
    ("attention", "mine", "imdb"): (0.5, 0.8),
}


def agreement_files(folder):
    """Write a file of every dataset, and return their pattern."""
    rows, paths = agreement_of(VALUES), {name: folder / f"{name}.parquet" for name in DATASETS}
    for name, path in paths.items():
        write_frame(path, "agreement", rows[rows["dataset"] == name])
    return folder / "{dataset}.parquet"


def metric_rows(values, protocol="dynamic", datasets=("average",)):
    """Rows of `statistics`; `values` = {metric: values of the methods a, b, …}."""
    return [
        statistics_row(
            metric, dataset, "abcdefghijklm"[place], value,
            protocol=None if metric in RANKING_METRICS else protocol,
        )
        for metric, numbers in values.items()
        for dataset in datasets
        for place, value in enumerate(numbers)
    ]  # fmt: skip


METRIC_SETTINGS = SETTINGS | {"methods": {name: name.upper() for name in "abc"}}
METRIC_ROWS = metric_rows(
    {NS: [1, 2, 3], NC: [1, 2, 3], "soft_ns": [5, 5, 5], INSERTION: [1, 2, 3]}
)


def write_metrics(path):
    """Write `METRIC_ROWS`, and rows of another model."""
    other = [
        {**row, "model": "mistral", "value": -row["value"]} for row in metric_rows({NS: [9, 1]})
    ]
    write_rows(path, "statistics", METRIC_ROWS + other, {})
    return {"statistics": path}
