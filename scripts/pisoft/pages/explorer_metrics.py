"""What was measured of single samples, for the explorer's cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pisoft.contracts import OK, read_table
from pisoft.statistics.metrics import AUC_METRICS, EVIDENCE_METRICS

DIGITS = 4  # significant ones

Measured = dict[tuple[str, str], dict[str, Any]]  # by sample and method


def sample_metrics(
    model: str,
    dataset: str,
    samples: Sequence[str],
    soft_samples: Iterable[Path],
    evidence_samples: Iterable[Path],
    datamodel_samples: Iterable[Path],
) -> Measured:
    """Return the AUCs, LDS and evidence numbers of a model's samples, by sample and method.

    Args:
        model, dataset: whose.
        samples: ids of the samples.
        soft_samples, evidence_samples, datamodel_samples: files of these kinds.

    Returns:
        `areas`: by protocol, both AUCs; `lds`: by protocol, the LDS given count, where it is
        computed; `evidence`: EVIDENCE_METRICS, where the dataset has evidence. Where a
        sample failed, its status stands in place of the list.

    Raises:
        BenchmarkError: an unreadable file.
    """
    cell = (pc.field("model") == model) & (pc.field("dataset") == dataset)
    cell &= pc.field("sample_id").isin(list(samples))
    found: Measured = {}
    for row in _rows(soft_samples, "soft_samples", cell, AUC_METRICS):
        areas = _of(found, row).setdefault("areas", {})
        areas[row["protocol"]] = _with(areas.get(row["protocol"], []), row)
    for row in _rows(datamodel_samples, "datamodel_samples", cell, ("lds_given_count",)):
        _of(found, row).setdefault("lds", {})[row["protocol"]] = _with([], row)
    for row in _rows(evidence_samples, "evidence_samples", cell, EVIDENCE_METRICS):
        own = _of(found, row)
        own["evidence"] = _with(own.get("evidence", []), row)
    return found


def _rows(
    paths: Iterable[Path], kind: str, cell: pc.Expression, metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of a cell, those of each sample and method in the order of the metrics."""
    where = cell & pc.field("metric").isin(list(metrics))
    tables = [read_table(path, kind, where=where) for path in paths]
    rows = pa.concat_tables(tables).to_pylist() if tables else []
    return sorted(rows, key=lambda row: metrics.index(row["metric"]))


def _of(found: Measured, row: dict[str, Any]) -> dict[str, Any]:
    return found.setdefault((row["sample_id"], row["method"]), {})


def _with(values: list[float], row: dict[str, Any]) -> list[float] | str:
    """Return a list of numbers with one more, or the status of a sample that has none."""
    if row["status"] != OK:
        return str(row["status"])
    return [*values, float(f"{row['value']:.{DIGITS}g}")]
