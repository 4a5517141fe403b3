"""Small hand-made results: statistics, comparisons and ranks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from pisoft.statistics.metrics import AUC_METRICS
from pisoft.statistics.results import summary_table
from pisoft.store.schemas import SCHEMAS

Rows = list[dict[str, Any]]
TEXTS = [field.name for field in SCHEMAS["statistics"] if pa.types.is_string(field.type)]
CELL = {"protocol": "dynamic", "model": "llama"}


def result_row(question: str, value: float | None, **given: Any) -> dict[str, Any]:
    """Return a row of results; other keys do not apply, and other numbers are missing."""
    missing = {name: "" if name in TEXTS else None for name in SCHEMAS[question].names}
    counts = {"n": 0, "n_failed": 20} if value is None else {"n": 20, "n_failed": 0}
    return {**missing, "question": question, **CELL, "value": value, **counts, **given}


def statistics_row(metric: str, dataset: str, method: str, value: float | None, **more: Any) -> Any:
    """Return a row of `statistics`."""
    return result_row("statistics", value, metric=metric, dataset=dataset, method=method, **more)


def sample_rows(
    values: Mapping[str, Iterable], metric: str, dataset: str = "sst2", **keys: Any
) -> Rows:
    """Return rows of samples; `values` = {method: values by sample}, None on failure."""
    return [
        {
            **{"model": "llama", "dataset": dataset, "metric": metric, **keys},
            **{"method": method, "sample_id": f"s{number}", "value": value},
            "status": "nonfinite_attribution" if value is None else "ok",
        }
        for method, column in values.items()
        for number, value in enumerate(column)
    ]


def study_rows(
    values: Mapping[int, Mapping[str, Iterable]],
    *,
    fixed: int = 2,
    weights: str = "loosened",
    candidates: Iterable[int] = (1, 2, 4),
    **keys: Any,
) -> Rows:
    """Return rows of `layer_study`, equal for all metrics; `values` = {depth: {part: samples}}."""
    return [
        {
            **{**CELL, "dataset": "sst2", "method": f"grad_ellm-{weights}-{depth}", **keys},
            **{"token_weights": weights, "part": part, "sample_id": f"{part}-{number}"},
            **{"depth": depth, "candidate": depth in candidates, "fixed": depth == fixed},
            **{"metric": metric, "value": value},
            "status": "nonfinite_attribution" if value is None else "ok",
        }
        for depth, parts in values.items()
        for part, column in parts.items()
        for number, value in enumerate(column)
        for metric in AUC_METRICS
    ]


def rank_rows(metric: str, ranks: Mapping[str, float | None]) -> Rows:
    """Return rows of `ranks`, with intervals of one rank to each side."""
    rows = []
    for method, rank in ranks.items():
        if rank is not None:
            ends = {"low": max(1, rank - 1), "high": min(len(ranks), rank + 1)}
            keys = {"metric": metric, "dataset": "average", "method": method}
            rows += [
                result_row("ranks", rank, part="rank", **keys, **ends),
                result_row("ranks", rank + 0.1, part="mean_rank", **keys),
                result_row("ranks", float(rank == 1), part="best_share", **keys),
            ]
    return rows


def comparison_rows(
    metric: str, methods: Iterable[str], together: Iterable[Iterable[str]] = ()
) -> Rows:
    """Return rows of `comparisons`; methods of one group do not differ, all others do."""
    groups = [set(group) for group in together]
    return [
        result_row(
            "comparisons",
            0.1,
            **{"metric": metric, "dataset": "average", "method": method, "other": other},
            **{"p_value": 0.01, "p_smallest": 0.0001, "detectable": 0.05},
            p_adjusted=0.05 if any({method, other} <= group for group in groups) else 0.001,
        )
        for method, other in itertools.combinations(methods, 2)
    ]


def frame(rows: Rows) -> pd.DataFrame:
    """Return rows like a reader of a summary file: missing numbers are NaN."""
    table = pd.DataFrame(rows, columns=None if rows else SCHEMAS["statistics"].names)
    whole = ("n", "n_failed")
    return table.astype({name: float for name in table if name not in (*TEXTS, *whole)})


def results(question: str, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows like a reader of the file; keys and numbers may be missing."""
    return summary_table(question, [pd.DataFrame(list(rows))]).to_pandas()
