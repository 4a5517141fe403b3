"""Insertion, deletion and counterfactuals by sample: one number each of every sample and cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path

import pandas as pd

from pisoft.config.jobs.summaries import SummariseRankingJob
from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import NOT_FLIPPED, RANKING_METRICS, TOKENS_CHANGED
from pisoft.statistics.reading import REPAIR, Files, Summary
from pisoft.store.parquet import NOT_APPLICABLE, OK, read_table

METRICS = {  # by curve
    "deletion": "deletion_auc",
    "insertion": "insertion_auc",
    "counterfactual": TOKENS_CHANGED,
}
Settings = SummariseRankingJob


def summaries(files: Files, settings: SummariseRankingJob) -> dict[str, Summary]:
    """Return one file of samples, from all `ranking` files."""
    return {"ranking_samples": ranking_samples(files["ranking"], settings.not_applicable)}


def ranking_samples(paths: Iterable[Path], not_applicable: Mapping[str, str]) -> Summary:
    """Return the `ranking_samples` rows: one per cell, sample and metric.

    Of counterfactuals there are two metrics: the share of tokens replaced at the first flip, 1
    without one, and whether there is none.

    A dataset that cannot be ranked has one row per model, method and metric, without a sample and
    with the reason.

    Raises:
        BenchmarkError: an unreadable file, an unknown curve, a sample that has one twice, or an ok
            row whose AUC is no share.
    """
    frames = {path.with_suffix("").parts[-3:]: _cell(path) for path in paths}
    explained = dict.fromkeys(cell[:2] for cell in frames)
    for cell, (dataset, reason) in product(explained, not_applicable.items()):
        without = {"metric": RANKING_METRICS, "status": NOT_APPLICABLE, "reason": reason}
        frames[*cell, dataset] = pd.DataFrame({"sample_id": None, "value": None, **without})
    return [
        frame.assign(model=model, method=method, dataset=dataset)
        for (model, method, dataset), frame in frames.items()
    ]


def _cell(path: Path) -> pd.DataFrame:
    """Return the rows of one file, checked, but for their cell."""
    rows = read_table(path, "ranking").to_pandas()
    ok = rows["status"] == OK
    for wrong, problem in (
        (~rows["curve"].isin(list(METRICS)), f"its curve is none of: {', '.join(METRICS)}"),
        (rows.duplicated(["sample_id", "curve"]), "has a curve twice"),
        (ok & ~rows["auc"].between(0, 1), "is ok, but its AUC is not between 0 and 1"),
    ):
        for sample in rows.loc[wrong, "sample_id"]:
            raise BenchmarkError(f"{path}: sample '{sample}': {problem}; {REPAIR}")
    rows = rows.assign(metric=rows["curve"].map(METRICS), reason=None)
    rows = rows.rename(columns={"auc": "value"})
    changed = rows[rows["metric"] == TOKENS_CHANGED]
    if changed.empty:
        return rows
    never = [None if flips is None else float(not any(flips)) for flips in changed["flips"]]
    return pd.concat([rows, changed.assign(metric=NOT_FLIPPED, value=never)])
