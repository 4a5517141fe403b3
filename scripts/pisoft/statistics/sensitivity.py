"""How far the order of the methods changes when one choice of the metric is made otherwise.

The run's order is that of the methods' mean AUC of π-Soft-NS or π-Soft-NC. Every alternative of
:mod:`pisoft.statistics.alternatives` gives another order, from the same stored draws, or from those
that the run has of another routing or operator: no forward pass is made. Compared are, over the
methods that have a value in both,

- Kendall's τ-b of the two orders: 1 says that both order all methods alike;
- whether another method is best;
- the largest change of a method's rank.

Half of the samples are 20 halves drawn by key, each against the whole, of which all numbers are
means. τ's interval is taken over resamples of the samples, in each of which both orders are
computed anew; the resamples are those of all other statistics, the same for every alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.operators import protocol_and_operator
from pisoft.config.slices.summaries import SensitivitySlice
from pisoft.statistics.alternatives import (
    METRICS,
    OPERATORS,
    OTHER_ROUTING,
    PARTS_OF_THE_GRID,
    Areas,
    sample_areas,
)
from pisoft.statistics.bootstrap import Resampled, intervals, ranks
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.orders import (
    Methods,
    Orders,
    alternatives_of,
    average_orders,
    dataset_orders,
)
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.robustness import DECIMALS, first
from pisoft.statistics.soft_files import Cell

FEWEST_METHODS = 2  # of an order
Settings = SensitivitySlice
Datasets = Mapping[str, Methods]


def summaries(files: Files, settings: SensitivitySlice) -> dict[str, Summary]:
    """Return one file of how far orders change, from all `soft` files."""
    cells = _cells(files["soft"], settings)
    operators = _cells(files.get("operators", []), settings)
    schema = SCHEMAS["sensitivity"]
    rows = []
    for (protocol, model), datasets in cells.items():
        others: dict[str, Datasets] = {}
        for (routing, name), of_other in cells.items():
            if name == model and routing != protocol:
                others[OTHER_ROUTING] = of_other
        for (way, name), of_other in operators.items():
            routing, operator = protocol_and_operator(way, "zero")
            if name == model and routing == protocol:
                others[OPERATORS[operator]] = of_other
        found = sensitivities(datasets, others, settings)
        rows += [{"protocol": protocol, "model": model, **row} for row in found]
    frame = pd.DataFrame(rows, columns=schema.names)
    return {"sensitivity": pa.Table.from_pandas(frame, schema=schema, preserve_index=False)}


def _cells(
    paths: Iterable[Path], settings: SensitivitySlice
) -> dict[tuple[str, str], dict[str, dict[str, Areas]]]:
    """Read `soft` files by protocol and model, dataset and method."""
    cells: dict[tuple[str, str], dict[str, dict[str, Areas]]] = {}
    for path in paths:
        cell = Cell.of(path)
        by_dataset = cells.setdefault((cell.protocol, cell.model), {})
        areas = sample_areas(path, settings.minimum_h0, settings.clamp)
        by_dataset.setdefault(cell.dataset, {})[cell.method] = areas
    return cells


def sensitivities(
    datasets: Datasets, others: Mapping[str, Datasets], settings: SensitivitySlice
) -> list[dict[str, Any]]:
    """Return `sensitivity` rows of one protocol and model, but for these two columns.

    Args:
        datasets: by dataset and method, what the draws give.
        others: what other draws give, by alternative: those under the other protocol, or with
            another operator.
        settings: clamp, seed and number of resamples.
    """
    rows = []
    for metric in METRICS:
        applicable = alternatives_of(metric, settings.clamp, others)
        orders = {
            name: dataset_orders(
                metric,
                name,
                own,
                {key: of_other.get(name, {}) for key, of_other in others.items()},
                applicable,
                settings,
            )
            for name, own in datasets.items()
            if any(len(areas.values) for areas in own.values())
        }
        if orders:
            orders[AVERAGE] = average_orders(list(orders.values()))
        for name, of_dataset in orders.items():
            found = order_rows(of_dataset, applicable)
            rows += [{"metric": METRICS[metric], "dataset": name, **row} for row in found]
    return rows


def order_rows(orders: Orders, applicable: Iterable[str]) -> list[dict[str, Any]]:
    """Compare every alternative's order with the run's, as `sensitivity` rows."""
    run, drawn_run = orders.whole[0], orders.drawn[:, 0]
    compared = np.isfinite(run)
    n = int(orders.counts[compared].min(initial=orders.counts.max(initial=0)))
    rows, drawn_taus = [], []
    for name in applicable:
        places = [place for place, of in enumerate(orders.alternatives) if of == name]
        others = orders.whole[places]  # (O', M)
        common = compared & np.isfinite(others).all(axis=0)
        tau = float(kendall_taus(run[common], others[:, common]).mean())  # NaN if one has none
        known = not np.isnan(tau)
        changes = [_change(orders.methods, run, other, common) for other in others] if known else []
        best, best_changes, rank_changes = zip(*changes, strict=True) if changes else ([], [], [])
        rows.append(
            {
                "alternative": name,
                "kendall_tau": tau if known else None,
                "n_methods": int(common.sum()),
                "best": best[0] if len(best) == 1 else None,
                "best_changes": float(np.mean(best_changes)) if known else None,
                "rank_change": float(np.mean(rank_changes)) if known else None,
                "n": n,
                "n_failed": orders.samples - n,
                "reason": None if known else _reason(orders, name, compared, common),
            }
        )
        of_draws = np.stack(
            [kendall_taus(drawn_run[:, common], orders.drawn[:, o][:, common]) for o in places]
        )
        drawn_taus.append(_mean_of_known(of_draws) if known else np.full(of_draws.shape[1], np.nan))
    columns = pd.DataFrame(rows)[["n"]].assign(
        datasets=orders.datasets,
        fewest=[orders.fewest if np.isfinite(draws).any() else 0 for draws in drawn_taus],
    )
    _, low, high = intervals(Resampled(columns, np.stack(drawn_taus, axis=1)))
    return [{**row, "low": low[at], "high": high[at]} for at, row in enumerate(rows)]


def kendall_taus(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return Kendall's τ-b along the last axis, over the places where both have a number.

    Args:
        one: numbers, (…, M); what differs by rounding alone is a tie.
        other: numbers, whose shape broadcasts with that.

    Returns:
        τ-b, (…); NaN with fewer than two places, or where all of one are ties.
    """
    left, right = np.triu_indices(one.shape[-1], k=1)
    rounded = (np.round(numbers, DECIMALS) for numbers in (one, other))
    signs = [np.sign(numbers[..., left] - numbers[..., right]) for numbers in rounded]
    both = np.isfinite(signs[0]) & np.isfinite(signs[1])
    first_signs, second_signs = (np.where(both, sign, 0.0) for sign in signs)
    untied = [(sign**2).sum(axis=-1) for sign in (first_signs, second_signs)]
    with np.errstate(invalid="ignore"):
        return (first_signs * second_signs).sum(axis=-1) / np.sqrt(untied[0] * untied[1])


def _change(
    methods: list[str], run: np.ndarray, other: np.ndarray, common: np.ndarray
) -> tuple[str, bool, float]:
    """Return the other order's best methods, whether they are others, and how far a rank moves."""
    names = [method for method, given in zip(methods, common, strict=True) if given]
    before, after = (
        pd.Series(ranks(np.round(values[common], DECIMALS), "highest"), index=names)
        for values in (run, other)
    )
    return ", ".join(first(after)), first(before) != first(after), (before - after).abs().max()


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    """Return the mean of each column's numbers, NaN where there is none."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0)


def _reason(orders: Orders, alternative: str, compared: np.ndarray, common: np.ndarray) -> str:
    """Say why an alternative has no τ.

    Args:
        orders: of a dataset, or averaged.
        alternative: its name.
        compared: which methods have a value in the run's order, (M,).
        common: which of them have one with the alternative, too, (M,).
    """
    if compared.sum() < FEWEST_METHODS:
        return "fewer than two methods have a value"
    if alternative in orders.lacking:
        return orders.lacking[alternative]
    if common.sum() >= FEWEST_METHODS:
        return "all methods are equal in one of the two orders"
    if alternative in PARTS_OF_THE_GRID:
        return "the grid has fewer than two such π"
    return "fewer than two methods have a value with it"
