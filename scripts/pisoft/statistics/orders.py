"""The orders of the methods, by the run's choices and by every alternative to them.

Half of the samples are 20 halves drawn by key, each an order of its own. Every order is computed
anew in each resample of the samples; the resamples are the same for every alternative.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pisoft.config.base import Clamp
from pisoft.config.slices.summaries import SensitivitySlice
from pisoft.keyed import keyed_generator
from pisoft.statistics.alternatives import (
    ALTERNATIVES,
    FEWEST_TO_HALVE,
    HALF_DRAWS,
    HALF_SAMPLES,
    MEDIAN,
    OF_CLAMPS,
    OPERATORS,
    OTHER_ROUTING,
    RATIO_OF_MEANS,
    RUN,
    SINGLE_DRAW,
    Areas,
)
from pisoft.statistics.bootstrap import SMALLEST, resampled_column_medians, resampled_ratios

HALVES = 20
ONE_DRAW = "a single draw is stored"
OWN_DRAWS = (OTHER_ROUTING, *OPERATORS.values())  # of alternatives that stored draws lack
Methods = Mapping[str, Areas]


@dataclass(frozen=True)
class Orders:
    """What puts the methods of a dataset, or of the average over datasets, in O orders.

    Attributes:
        methods: names, M of them.
        alternatives: of each order, that of the run first; O names, repeated for the halves.
        whole: the methods' values, higher is better, NaN where there is none, (O, M).
        drawn: the same of B resamples of the samples, (B, O, M).
        lacking: why an alternative has no values, by alternative.
        counts: samples with a value of each method, (M,).
        samples: how many there are.
        datasets: over how many is averaged.
        fewest: samples of the smallest of the datasets with a value of every method that has one.
    """

    methods: list[str]
    alternatives: list[str]
    whole: np.ndarray
    drawn: np.ndarray
    lacking: dict[str, str]
    counts: np.ndarray
    samples: int
    datasets: int
    fewest: int


def alternatives_of(metric: str, clamp: Clamp, others: Container[str]) -> list[str]:
    """Return the alternatives to a run's choices: not its own clamp, and none of π-Soft-NC.

    Of those that take draws of their own, only the given ones.
    """
    return [
        name
        for name in ALTERNATIVES
        if (name not in OF_CLAMPS or (metric == "ns" and OF_CLAMPS[name] != clamp))
        and (name not in OWN_DRAWS or name in others)
    ]


def dataset_orders(
    metric: str,
    dataset: str,
    own: Methods,
    others: Mapping[str, Methods],
    applicable: Iterable[str],
    settings: SensitivitySlice,
) -> Orders:
    """Return the orders of one dataset."""
    found = _Values(metric, own)
    run = found.of(own, RUN)
    known = np.isfinite(run)
    having = np.flatnonzero(known.any(axis=1))
    draws = max(areas.draws[metric] for areas in own.values())
    lacking = _lacking(draws, having.size, settings.clamp)
    names, tops, bottoms = [RUN], [run], [known]
    for name in applicable:
        if name == HALF_SAMPLES:
            for number in range(HALVES):
                generator = keyed_generator(settings.seed, "half of the samples", dataset, number)
                left_out = generator.permutation(having)[having.size // 2 :]
                top = run.copy()
                top[left_out] = np.nan
                names, tops, bottoms = [*names, name], [*tops, top], [*bottoms, np.isfinite(top)]
            continue
        top = found.of(others[name], RUN) if name in OWN_DRAWS else found.of(own, name)
        if name in lacking:
            top = np.full_like(top, np.nan)
        size = np.isfinite(top)
        names, tops = [*names, name], [*tops, top]
        bottoms.append(np.where(size, found.h0(), 0.0) if name == RATIO_OF_MEANS else size)
    whole, drawn = _means(np.stack(tops, axis=1), np.stack(bottoms, axis=1), dataset, settings)
    place = names.index(MEDIAN)
    whole[place], drawn[:, place] = _medians(run, dataset, settings)
    counts = known.sum(axis=0)
    return Orders(
        methods=found.methods,
        alternatives=names,
        whole=whole,
        drawn=drawn,
        lacking=lacking,
        counts=counts,
        samples=len(found.samples),
        datasets=1,
        fewest=int(counts[counts > 0].min(initial=len(found.samples))),
    )


def average_orders(parts: list[Orders]) -> Orders:
    """Return the orders by the mean over datasets, each with equal weight."""
    methods = list(dict.fromkeys(name for part in parts for name in part.methods))
    wholes, drawns, counts = [], [], []
    for part in parts:
        places = np.array([part.methods.index(m) if m in part.methods else -1 for m in methods])
        absent = places < 0
        wholes.append(np.where(absent, np.nan, part.whole[:, places]))
        drawns.append(np.where(absent, np.nan, part.drawn[..., places]))
        counts.append(np.where(absent, 0, part.counts[places]))
    return Orders(
        methods=methods,
        alternatives=parts[0].alternatives,
        whole=np.mean(wholes, axis=0),
        drawn=np.mean(drawns, axis=0),
        lacking={name: why for part in parts for name, why in part.lacking.items()},
        counts=np.sum(counts, axis=0),
        samples=sum(part.samples for part in parts),
        datasets=len(parts),
        fewest=min(part.fewest for part in parts),
    )


class _Values:
    """The areas of a metric on a dataset, samples by methods, (n, M); NaN where there is none."""

    def __init__(self, metric: str, own: Methods) -> None:
        self.methods = list(own)
        samples = dict.fromkeys(name for areas in own.values() for name in areas.values.index)
        self.samples = pd.Index(list(samples))
        self._metric = metric
        self._own = own

    def of(self, given: Methods, alternative: str) -> np.ndarray:
        """Return those of an alternative; methods that are not given have none."""
        lacked = np.full(len(self.samples), np.nan)
        columns = [
            given[method].of(self._metric, alternative, self.samples) if method in given else lacked
            for method in self.methods
        ]
        return np.stack(columns, axis=1)

    def h0(self) -> np.ndarray:
        """Return H₀."""
        columns = (self._own[method].h0.reindex(self.samples) for method in self.methods)
        return np.stack([column.to_numpy() for column in columns], axis=1)


def _means(
    top: np.ndarray, bottom: np.ndarray, dataset: str, settings: SensitivitySlice
) -> tuple[np.ndarray, np.ndarray]:
    """Return ratios of sums over samples (n, O, M), whole (O, M) and of resamples (B, O, M)."""
    top, bottom = np.nan_to_num(top), bottom.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = top.sum(axis=0) / bottom.sum(axis=0)
    n, generator = len(top), _generator(dataset, settings)
    drawn = resampled_ratios(
        top.reshape(n, -1), bottom.reshape(n, -1), generator, settings.resamples
    )
    return whole, drawn.reshape(-1, *whole.shape)


def _medians(
    values: np.ndarray, dataset: str, settings: SensitivitySlice
) -> tuple[np.ndarray, np.ndarray]:
    """Return medians over samples (n, M), whole (M,) and of the same resamples (B, M)."""
    whole = pd.DataFrame(values).median().to_numpy()
    generator = _generator(dataset, settings)
    return whole, resampled_column_medians(values, generator, settings.resamples)


def _generator(dataset: str, settings: SensitivitySlice) -> np.random.Generator:
    """Return what draws the resamples of a dataset, those of all other statistics."""
    return keyed_generator(settings.seed, "bootstrap", dataset)


def _lacking(draws: int, samples: int, clamp: Clamp) -> dict[str, str]:
    """Return the alternatives that cannot be had of so many draws and samples, and why."""
    found = {}
    if draws < 2:
        found[SINGLE_DRAW] = ONE_DRAW
        if clamp != "none":  # clamping the only draw is clamping the mean
            found |= dict.fromkeys(OF_CLAMPS.keys() - {"clamp_none"}, ONE_DRAW)
    if draws < FEWEST_TO_HALVE:
        found[HALF_DRAWS] = f"fewer than {FEWEST_TO_HALVE} draws are stored"
    if samples < SMALLEST:
        found[HALF_SAMPLES] = "fewer than two samples have a value"
    return found
