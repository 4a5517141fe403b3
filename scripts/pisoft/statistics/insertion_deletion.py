"""Insertion and deletion by sample: the AUC of every sample of every cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.slices import SummariseRankingSlice
from pisoft.contracts import NOT_APPLICABLE, OK, read_table
from pisoft.errors import BenchmarkError
from pisoft.statistics.reading import REPAIR, Files, Summary

METRICS = {"deletion": "deletion_auc", "insertion": "insertion_auc"}  # by curve


Settings = SummariseRankingSlice


def summaries(files: Files, settings: SummariseRankingSlice) -> dict[str, Summary]:
    """Return one file of samples, from all `ranking` files."""
    return {"ranking_samples": ranking_samples(files["ranking"], settings.not_applicable)}


def ranking_samples(paths: Iterable[Path], not_applicable: Mapping[str, str]) -> pa.Table:
    """Return the `ranking_samples` rows: one per cell, sample and metric.

    A dataset that cannot be ranked has one row per model, method and metric, without a sample and
    with the reason.

    Args:
        paths: `ranking` files `…/{model}/{method}/{dataset}.parquet`.
        not_applicable: by dataset that cannot be ranked, why.

    Raises:
        BenchmarkError: an unreadable file, an unknown curve, a sample that has one twice, or an ok
            row whose AUC is no share.
    """
    paths = list(paths)
    explained = dict.fromkeys(path.parts[-3:-1] for path in paths)  # model, method
    return pa.concat_tables([*map(_cell, paths), _not_applicable(explained, not_applicable)])


def _cell(path: Path) -> pa.Table:
    model, method, dataset = path.with_suffix("").parts[-3:]
    rows = read_table(path, "ranking").to_pandas()
    _check(rows, path)
    tidy = {
        "model": model,
        "method": method,
        "dataset": dataset,
        "sample_id": rows["sample_id"],
        "metric": rows["curve"].map(METRICS),
        "value": rows["auc"],
        "status": rows["status"],
        "reason": None,
    }
    schema = SCHEMAS["ranking_samples"]
    table = pa.Table.from_pandas(pd.DataFrame(tidy), schema=schema, preserve_index=False)
    return table.replace_schema_metadata(None)


def _check(rows: pd.DataFrame, path: Path) -> None:
    ok = rows["status"] == OK
    for wrong, problem in (
        (~rows["curve"].isin(list(METRICS)), f"its curve is none of: {', '.join(METRICS)}"),
        (rows.duplicated(["sample_id", "curve"]), "has a curve twice"),
        (ok & ~rows["auc"].between(0, 1), "is ok, but its AUC is not between 0 and 1"),
    ):
        for sample in rows.loc[wrong, "sample_id"]:
            raise BenchmarkError(f"{path}: sample '{sample}': {problem}; {REPAIR}")


def _not_applicable(explained: Iterable[tuple[str, ...]], reasons: Mapping[str, str]) -> pa.Table:
    rows = [
        {
            "model": model,
            "method": method,
            "dataset": dataset,
            "sample_id": None,
            "metric": metric,
            "value": None,
            "status": NOT_APPLICABLE,
            "reason": reason,
        }
        for (model, method), (dataset, reason), metric in itertools.product(
            explained, reasons.items(), METRICS.values()
        )
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMAS["ranking_samples"])
