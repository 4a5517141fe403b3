"""Small files of statistics, comparisons and ranks with one dataset left out, for tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

Rows = list[dict[str, Any]]


def statistics_row(metric: str, dataset: str, method: str, value: float | None, **more: Any) -> Any:
    """Return a row of `statistics` whose other numbers are missing unless given."""
    row = {
        "protocol": "dynamic",
        "model": "llama",
        "metric": metric,
        "dataset": dataset,
        "method": method,
        "value": value,
        "n": 20 if value is not None else 0,
        "n_failed": 0 if value is not None else 20,
    }
    missing = ("low", "high", "standard_error", "rank", "rank_low", "rank_high", "mean_rank")
    return {
        **row,
        **dict.fromkeys((*missing, "best_share", "best", "p_value", "p_smallest")),
        **more,
    }


def ranked_rows(metric: str, ranks: Mapping[str, float | None], dataset: str = "average") -> Rows:
    """Return rows of `statistics`: methods with their ranks, intervals one rank to each side."""
    return [
        statistics_row(
            metric,
            dataset,
            method,
            None if rank is None else 1 - rank / 100,
            rank=rank,
            rank_low=None if rank is None else max(1, rank - 1),
            rank_high=None if rank is None else min(len(ranks), rank + 1),
            mean_rank=None if rank is None else rank + 0.1,
            best_share=None if rank is None else float(rank == 1),
        )
        for method, rank in ranks.items()
    ]


def comparison_rows(
    metric: str, methods: Iterable[str], together: Iterable[Iterable[str]] = ()
) -> Rows:
    """Return rows of `comparisons` in which only methods of one group are not told apart."""
    groups = [set(group) for group in together]
    return [
        {
            "protocol": "dynamic",
            "model": "llama",
            "metric": metric,
            "dataset": "average",
            "method": method,
            "other": other,
            "difference": 0.1,
            "n": 20,
            "p_value": 0.01,
            "p_smallest": 0.0001,
            "p_adjusted": 0.9 if any({method, other} <= group for group in groups) else 0.001,
        }
        for method, other in itertools.combinations(methods, 2)
    ]


def left_out_rows(metric: str, ranks: Mapping[str | None, Mapping[str, float | None]]) -> Rows:
    """Return rows of `leave_one_out`; `ranks` = {dataset that is left out: {method: rank}}."""
    return [
        {
            "protocol": "dynamic",
            "model": "llama",
            "metric": metric,
            "left_out": dataset,
            "method": method,
            "value": None if rank is None else 1 - rank / 100,
            "rank": rank,
        }
        for dataset, by_method in ranks.items()
        for method, rank in by_method.items()
    ]


def frame(rows: Rows) -> pd.DataFrame:
    """Return rows as a reader of a summary file gives them: missing numbers are NaN."""
    found = pd.DataFrame(rows)
    texts = ("protocol", "model", "metric", "dataset", "method", "other", "left_out", "best")
    return found.astype(
        {name: float for name in found.columns if name not in (*texts, "n", "n_failed")}
    )
