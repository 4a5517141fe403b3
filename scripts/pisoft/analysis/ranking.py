"""Insertion and deletion by sample: the AUC of every sample of every cell."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa

from pisoft.contracts import NOT_APPLICABLE, SCHEMAS, read_table
from pisoft.errors import BenchmarkError
from pisoft.settings import SummariseRankingSlice

METRICS = {"deletion": "deletion_auc", "insertion": "insertion_auc"}  # by curve


def ranking_samples(settings: SummariseRankingSlice, paths: Sequence[Path]) -> pa.Table:
    """Return the `ranking_samples` rows: one per cell, sample and metric.

    A dataset that cannot be ranked has one row per model, method and metric, without a sample and
    with the reason.

    Args:
        settings: the cells, and the datasets that cannot be ranked.
        paths: files `…/{model}/{method}/{dataset}.parquet` in the product's order.

    Raises:
        BenchmarkError: an unreadable file, too few or too many, or one that lies at another cell's
            path.
    """
    cells = list(itertools.product(settings.models, settings.methods, settings.datasets))
    expected = [(model, method, f"{dataset}.parquet") for model, method, dataset in cells]
    if [path.parts[-3:] for path in paths] != expected:
        raise BenchmarkError(f"--ranking: expected {expected}, got {[str(p) for p in paths]}")
    tables = [_cell(*names, path) for names, path in zip(cells, paths, strict=True)]
    return pa.concat_tables([*tables, _not_applicable(settings)])


def _cell(model: str, method: str, dataset: str, path: Path) -> pa.Table:
    rows = read_table(path, "ranking").to_pandas()
    return _table(
        pd.DataFrame(
            {
                "model": model,
                "method": method,
                "dataset": dataset,
                "sample_id": rows["sample_id"],
                "metric": rows["curve"].map(METRICS),
                "value": rows["auc"],
                "status": rows["status"],
                "reason": None,
            }
        )
    )


def _not_applicable(settings: SummariseRankingSlice) -> pa.Table:
    cells = itertools.product(
        settings.models, settings.methods, settings.not_applicable, METRICS.values()
    )
    rows = pd.DataFrame(cells, columns=["model", "method", "dataset", "metric"])
    reasons = rows["dataset"].map(settings.not_applicable)
    return _table(rows.assign(sample_id=None, value=None, status=NOT_APPLICABLE, reason=reasons))


def _table(rows: pd.DataFrame) -> pa.Table:
    schema = SCHEMAS["ranking_samples"]
    table = pa.Table.from_pandas(rows[schema.names], schema=schema, preserve_index=False)
    return table.replace_schema_metadata(None)
