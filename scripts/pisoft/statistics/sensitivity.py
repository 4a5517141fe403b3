"""Sensitivity of the order of the methods to single choices of the metric.

The run's order is by mean AUC of π-Soft-NS or π-Soft-NC. Every alternative of
:mod:`pisoft.statistics.alternatives` gives another order from stored draws of the run, or of its
other routing or operators, without forward passes. Over the methods with a value in both orders,
the comparison has

- Kendall's τ-b of the two orders, 1 if they are the same;
- whether another method is best;
- the largest change of a method's rank.

Numbers for half of the samples are means over 20 keyed halves, each compared with the whole. The
interval of τ is over resamples, shared by all statistics, with both orders recomputed in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import SensitivityJob
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
from pisoft.statistics.estimates import Estimates, estimate
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.orders import FEWEST_METHODS, kendall_taus, ranks
from pisoft.statistics.reading import Files, Summary
from pisoft.store.schemas import FILES

FACTS = ("n_methods", "best_changes", "rank_change")
Datasets = Mapping[str, Methods]


def summaries(files: Files, settings: SensitivityJob) -> dict[str, Summary]:
    """Return one file with the changes of orders, from all `soft` files."""
    runs = _cells(files["soft"], settings)
    cells = runs | _cells(files.get("operators", []), settings)
    frames, clusters = [], files.clusters()
    for (protocol, _, model), datasets in runs.items():
        new_draws = {
            alternative: draws
            for (other, operator, name), draws in cells.items()
            if name == model and (alternative := _alternative(protocol, other, operator))
        }
        for metric in METRICS:
            rows = sensitivities(metric, datasets, new_draws, settings, clusters)
            frames += [frame.assign(protocol=protocol, model=model) for frame in rows]
    return {"sensitivity": frames}


def _cells(
    paths: Iterable[Path], settings: SensitivityJob
) -> dict[tuple[str, str, str], dict[str, dict[str, Areas]]]:
    """Read `soft` files by protocol, operator and model, then by dataset and method."""
    cells: dict[tuple[str, str, str], dict[str, dict[str, Areas]]] = {}
    for path in paths:
        cell = FILES["soft"].cell(path)
        by_dataset = cells.setdefault((cell.protocol, cell.operator, cell.model), {})
        areas = sample_areas(path, settings.minimum_h0, settings.clamp)
        by_dataset.setdefault(cell.dataset, {})[cell.method] = areas
    return cells


def _alternative(protocol: str, other: str, operator: str) -> str | None:
    """Return the alternative that the draws of another cell are to those of a run's protocol.

    It is None unless exactly one of protocol and operator differs.
    """
    if other != protocol:
        return None if operator else OTHER_ROUTING
    return OPERATORS[operator] if operator else None


def sensitivities(
    metric: str,
    datasets: Datasets,
    new_draws: Mapping[str, Datasets],
    settings: SensitivityJob,
    clusters: Mapping[str, str],
) -> Iterator[pd.DataFrame]:
    """Yield the results of one metric, protocol and model, without the latter two keys.

    `datasets` are areas from the run's draws by dataset and method; `new_draws` are the same by
    alternative, from the other routing or another operator.
    """
    samples, missing = {}, {}
    for name, methods in datasets.items():
        if any(len(areas.values) for areas in methods.values()):
            dataset_draws = {key: draws.get(name, {}) for key, draws in new_draws.items()}
            samples[name], missing[name] = alternative_samples(
                metric, name, methods, dataset_draws, settings, clusters
            )
    if samples:
        missing[AVERAGE] = {key: why for one in missing.values() for key, why in one.items()}
        alternatives = alternatives_of(metric, settings.clamp, new_draws)
        for name, estimates in estimate(samples, settings).items():
            rows = compare_orders(estimates, alternatives, missing[name])
            yield rows.assign(metric=METRICS[metric], dataset=name)


def compare_orders(
    estimates: Estimates, alternatives: Iterable[str], missing: Mapping[str, str]
) -> pd.DataFrame:
    """Compare every alternative's order with the run's.

    Estimates are by metric, alternative, half and method, for a single metric; `missing` has the
    reason why an alternative has no value.

    Returns:
        By alternative (`part`), τ or, as `text`, the reason why there is none, and :data:`FACTS` as
        `other`. The `text` of `best_changes` lists the best methods, if there is a single order.
    """
    replicates = estimates.replicates.droplevel("metric", axis=1)
    run = replicates[RUN][0]
    ranked = run.columns[run.iloc[0].notna()]
    counts = estimates.counts.xs((RUN, 0), level=("alternative", "half")).droplevel("metric")
    counts = counts.loc[ranked if len(ranked) else counts.index]
    size = counts.agg({**dict.fromkeys(counts, "min"), "n_failed": "max"})
    taus, facts = {}, []
    for name in alternatives:
        halves = replicates[name]
        orders = [halves[half][ranked] for half in halves.columns.unique("half")]
        methods = ranked[np.all([order.iloc[0].notna() for order in orders], axis=0)]
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
        facts.append({"n_methods": len(methods), **row})
    columns = pd.DataFrame(taus).rename_axis(columns="part")
    rows = Estimates(columns, pd.DataFrame([size] * len(facts), columns.columns)).table()
    changes = pd.DataFrame(facts, columns=[*FACTS, "best", "reason"])
    parts = [rows.assign(text=changes["reason"])]
    for fact in FACTS:
        numbers = rows[["part", "n", "n_failed"]].assign(other=fact, value=changes[fact])
        parts.append(numbers.assign(text=changes["best"] if fact == "best_changes" else ""))
    return pd.concat(parts)


def _changes(run: pd.Series, orders: np.ndarray) -> dict[str, object]:
    """Return :data:`FACTS` of orders (O, M), averaged, and the best methods of a single order."""
    before, after = ranks(run.to_numpy(), "highest"), ranks(orders, "highest")
    best_before, best_after = before == before.min(), after == after.min(axis=1, keepdims=True)
    return {
        "best_changes": (best_after & ~best_before).any(axis=1).mean(),
        "rank_change": np.abs(after - before).max(axis=1).mean(),
        "best": ", ".join(run.index[best_after[0]]) if len(orders) == 1 else None,
    }


def _reason(alternative: str, ranked: int, common: int, missing: Mapping[str, str]) -> str:
    """Say why an alternative has no τ, given the number of methods in one and in both orders."""
    if ranked < FEWEST_METHODS:
        return "fewer than two methods have a value"
    if alternative in missing:
        return missing[alternative]
    if common >= FEWEST_METHODS:
        return "all methods are equal in one of the two orders"
    if alternative in PARTS_OF_THE_GRID:
        return "the grid has fewer than two such π"
    return "fewer than two methods have a value with it"
