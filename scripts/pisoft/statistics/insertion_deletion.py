"""Insertion, deletion and counterfactuals: one number per sample, cell and metric."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import SummariseRankingJob
from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import (
    ANSWER_METRICS,
    NOT_FLIPPED,
    RANKING_METRICS,
    SHARES,
    TOKENS_CHANGED,
)
from pisoft.statistics.reading import REPAIR, Files, Summary
from pisoft.store.parquet import NOT_APPLICABLE, OK, read_table

METRICS = {  # by curve
    "deletion": "deletion_auc",
    "insertion": "insertion_auc",
    "counterfactual": TOKENS_CHANGED,
    **{curve: curve for curve in ANSWER_METRICS},
}


def summaries(files: Files, settings: SummariseRankingJob) -> dict[str, Summary]:
    """Return one file of samples, from all `ranking` files: a row per cell, sample and metric.

    Counterfactuals have two metrics: the share of tokens replaced at the first flip (1: no flip),
    and whether there is no flip. A dataset whose answers cannot flip has one row per model, method
    and metric of insertion and deletion, with the reason and without a sample.

    Raises:
        BenchmarkError: an unreadable file, an unknown or repeated curve of a sample, or an ok row
            without an AUC.
    """
    frames = [_checked_rows(path) for path in files["ranking"]]
    explained = dict.fromkeys(path.parts[-3:-1] for path in files["ranking"])
    for (model, method), (dataset, reason) in product(explained, settings.not_applicable.items()):
        cell = {"model": model, "method": method, "dataset": dataset, "metric": RANKING_METRICS}
        without = {"sample_id": None, "value": None, "status": NOT_APPLICABLE, "reason": reason}
        frames.append(pd.DataFrame({**cell, **without}))
    return {"ranking_samples": frames}


def _checked_rows(path: Path) -> pd.DataFrame:
    rows = read_table(path, "ranking").to_pandas()
    ok = rows["status"] == OK
    is_share = rows["curve"].map(METRICS).isin(SHARES)
    in_range = np.where(is_share, rows["auc"].between(0, 1), np.isfinite(rows["auc"]))
    for wrong, problem in (
        (~rows["curve"].isin(list(METRICS)), f"its curve is none of: {', '.join(METRICS)}"),
        (rows.duplicated(["sample_id", "curve"]), "has a curve twice"),
        (ok & ~in_range, "is ok, but its AUC is not finite, or not between 0 and 1"),
    ):
        for sample in rows.loc[wrong, "sample_id"]:
            raise BenchmarkError(f"{path}: sample '{sample}': {problem}; {REPAIR}")
    rows = rows.assign(metric=rows["curve"].map(METRICS), reason=None)
    rows = rows.rename(columns={"auc": "value"})
    rows[["model", "method", "dataset"]] = path.with_suffix("").parts[-3:]
    changed = rows[rows["metric"] == TOKENS_CHANGED]
    if changed.empty:
        return rows
    never = [None if flips is None else float(not any(flips)) for flips in changed["flips"]]
    return pd.concat([rows, changed.assign(metric=NOT_FLIPPED, value=never)])
