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

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.operators import protocol_and_operator
from pisoft.config.slices import SensitivitySlice
from pisoft.statistics.alternatives import (
    METRICS,
    OPERATORS,
    OTHER_ROUTING,
    PARTS_OF_THE_GRID,
    RUN,
    Areas,
    Methods,
    alternative_samples,
    alternatives_of,
    sample_areas,
)
from pisoft.statistics.estimates import Estimates, estimate, ranks
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.orders import FEWEST_METHODS, kendall_taus
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.soft_files import Cell

CHANGES = ["best", "best_changes", "rank_change"]
Settings = SensitivitySlice
Datasets = Mapping[str, Methods]


def summaries(files: Files, settings: SensitivitySlice) -> dict[str, Summary]:
    """Return one file of how far orders change, from all `soft` files."""
    cells = _cells(files["soft"], settings)
    operators = _cells(files.get("operators", []), settings)
    schema = SCHEMAS["sensitivity"]
    tables = [pd.DataFrame(columns=schema.names, dtype=object)]
    for (protocol, model), datasets in cells.items():
        new_draws: dict[str, Datasets] = {}
        for (routing, name), of_routing in cells.items():
            if name == model and routing != protocol:
                new_draws[OTHER_ROUTING] = of_routing
        for (variant, name), of_operator in operators.items():
            routing, operator = protocol_and_operator(variant, "zero")
            if name == model and routing == protocol:
                new_draws[OPERATORS[operator]] = of_operator
        rows = sensitivities(datasets, new_draws, settings)
        tables += [table.assign(protocol=protocol, model=model) for table in rows]
    frame = pd.concat(tables, ignore_index=True)[schema.names]
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
    datasets: Datasets, new_draws: Mapping[str, Datasets], settings: SensitivitySlice
) -> list[pd.DataFrame]:
    """Return `sensitivity` rows of one protocol and model, but for these two columns.

    Args:
        datasets: by dataset and method, areas of the run's draws.
        new_draws: the same of other draws, by alternative: those under the other routing, or with
            another operator.
        settings: clamp, seed and number of resamples.
    """
    tables = []
    for metric, label in METRICS.items():
        samples, missing = {}, {}
        for name, methods in datasets.items():
            if any(len(areas.values) for areas in methods.values()):
                of_dataset = {key: draws.get(name, {}) for key, draws in new_draws.items()}
                samples[name], missing[name] = alternative_samples(
                    metric, name, methods, of_dataset, settings
                )
        if not samples:
            continue
        sizes = {name: len(of.numerators) for name, of in samples.items()}
        sizes[AVERAGE] = sum(sizes.values())
        missing[AVERAGE] = {key: why for of in missing.values() for key, why in of.items()}
        alternatives = alternatives_of(metric, settings.clamp, new_draws)
        estimates = estimate(samples, settings.seed, settings.resamples)
        for name, of in estimates.items():
            rows = compare_orders(of, alternatives, sizes[name], missing[name])
            tables.append(rows.assign(metric=label, dataset=name))
    return tables


def compare_orders(
    estimates: Estimates, alternatives: Iterable[str], samples: int, missing: Mapping[str, str]
) -> pd.DataFrame:
    """Compare every alternative's order with the run's, as `sensitivity` rows.

    Args:
        estimates: by metric, alternative, half and method, of a single metric.
        alternatives: that are compared.
        samples: how many there are.
        missing: why an alternative has no value, by alternative.
    """
    replicates = estimates.replicates.droplevel("metric", axis=1)
    run = replicates[RUN][0]
    ranked = run.columns[run.iloc[0].notna()]
    counts = estimates.counts.xs((RUN, 0), level=("alternative", "half")).droplevel("metric")
    counts = counts.loc[ranked].min() if len(ranked) else counts.max()
    counts["n_failed"] = samples - counts["n"]
    taus, rows = {}, []
    for name in alternatives:
        halves = replicates[name]
        orders = [halves[half] for half in halves.columns.unique("half")]
        methods = ranked[np.all([order[ranked].iloc[0].notna() for order in orders], axis=0)]
        resampled = pd.DataFrame(
            np.stack([kendall_taus(run[methods], order[methods]) for order in orders], axis=1)
        )
        if resampled.iloc[0].notna().all():
            taus[name] = resampled.mean(axis=1)
            first = np.stack([order[methods].iloc[0] for order in orders])
            row = _changes(run[methods].iloc[0], first)
        else:
            taus[name] = pd.Series(np.nan, resampled.index)
            row = {"reason": _reason(name, len(ranked), len(methods), missing)}
        rows.append({"n_methods": len(methods), **row})
    of_taus = pd.DataFrame(taus).rename_axis(columns="alternative")
    sizes = pd.DataFrame([counts] * len(rows), of_taus.columns)
    table = Estimates(of_taus, sizes).table().rename(columns={"value": "kendall_tau"})
    changes = pd.DataFrame(rows, columns=["n_methods", *CHANGES, "reason"])
    return table.join(changes.astype({"best": object, "reason": object}))


def _changes(run: pd.Series, orders: np.ndarray) -> dict[str, object]:
    """Return :data:`CHANGES` of the orders (O, M) from the run's.

    That is the best methods of a single order, how often they are others than the run's, and the
    largest change of a rank, mean over orders.
    """
    before, after = ranks(run.to_numpy(), "highest"), ranks(orders, "highest")
    best_before, best_after = before == before.min(), after == after.min(axis=1, keepdims=True)
    best = ", ".join(run.index[best_after[0]]) if len(orders) == 1 else None
    moves = np.abs(after - before).max(axis=1).mean()
    numbers = (best, (best_before != best_after).any(axis=1).mean(), moves)
    return dict(zip(CHANGES, numbers, strict=True))


def _reason(alternative: str, ranked: int, common: int, missing: Mapping[str, str]) -> str:
    """Say why an alternative has no τ.

    Args:
        alternative: its name.
        ranked: number of methods with a value in the run's order.
        common: how many of them have one with the alternative, too.
        missing: why an alternative has no value, by alternative.
    """
    if ranked < FEWEST_METHODS:
        return "fewer than two methods have a value"
    if alternative in missing:
        return missing[alternative]
    if common >= FEWEST_METHODS:
        return "all methods are equal in one of the two orders"
    if alternative in PARTS_OF_THE_GRID:
        return "the grid has fewer than two such π"
    return "fewer than two methods have a value with it"
