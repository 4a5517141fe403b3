"""Paired permutation tests of every pair of methods, on the samples that both have.

If two methods are equally good, the sign of a sample's difference is up to chance. Two questions
are asked of a cell, each corrected as a family of its own: which methods differ from the control,
and which of the others differ from each other. The second is over all pairs, not over those with
the best method alone: the best was picked by looking at the same numbers, and only the larger
family allows for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from pisoft.statistics.metrics import CONTROL, METRICS
from pisoft.statistics.sign_flips import sign_flip_tests
from pisoft.statistics.values import SampleValues

Key = tuple[str | None, str, str, str, str]
CELL = ["protocol", "model", "metric"]
PAIR = [*CELL, "method", "other"]


@dataclass(frozen=True)
class _Pairs:
    """Pairs of methods, and what each sample adds to the difference of their statistics."""

    cells: set[tuple[str | None, str, str]]  # CELL of every metric that the dataset has
    keys: list[Key]  # PAIR
    n: list[int]  # common samples
    parts: np.ndarray  # (samples, pairs): columns add up to the differences


def compare(given: Mapping[str, SampleValues], average: str, seed: int, flips: int) -> pd.DataFrame:
    """Return `comparisons` rows of every dataset and of their average.

    Args:
        given: values by dataset.
        average: what to call the average in the column `dataset`. Its difference is the mean of
            the datasets' own; a pair that lacks common samples in one of them is not compared.
        seed: of the run.
        flips: how many sign flips are drawn, where not all are tried.
    """
    by_dataset = {dataset: _pairs(values) for dataset, values in given.items()}
    by_dataset[average] = _average(list(by_dataset.values()))
    tables = [
        _tested(pairs, flips, (seed, "sign flips", dataset)).assign(dataset=dataset)
        for dataset, pairs in by_dataset.items()
    ]
    return pd.concat(tables, ignore_index=True)


def _pairs(given: SampleValues) -> _Pairs:
    """Return all pairs of methods that have a common sample, by protocol, model and metric."""
    cells, keys, n, parts = set(), [], [], []
    columns = given.columns.reset_index(names="place")
    for (protocol, model), own in columns.groupby(["protocol", "model"], sort=False, dropna=False):
        protocol = None if pd.isna(protocol) else protocol
        places = {metric: of.set_index("method")["place"] for metric, of in own.groupby("metric")}
        for name, metric in METRICS.items():
            if not metric.compared or metric.of not in places:
                continue
            cells.add((protocol, model, name))
            for (method, first), (other, second) in combinations(places[metric.of].items(), 2):
                part = given.values[:, first] - given.values[:, second]
                common = np.isfinite(part)
                weights = common.astype(float)  # a mean is a sum over a number of samples
                if metric.over is not None:
                    weights = given.values[:, places[metric.over][method]]
                total = weights[common].sum()
                if total > 0:  # else there is no common sample, or nothing to divide by
                    keys.append((protocol, model, name, method, other))
                    n.append(int(common.sum()))
                    parts.append(np.where(common, part, 0.0) / total)
    matrix = np.stack(parts, axis=1) if parts else np.empty((len(given.values), 0))
    return _Pairs(cells, keys, n, matrix)


def _average(datasets: Sequence[_Pairs]) -> _Pairs:
    """Return the pairs that every dataset with their metric can compare, as mean over these."""
    having = Counter(cell for pairs in datasets for cell in pairs.cells)
    comparing = Counter(key for pairs in datasets for key in pairs.keys)
    keys = [key for key, count in comparing.items() if count == having[key[:3]]]
    n = np.zeros(len(keys), dtype=int)
    blocks = []
    for pairs in datasets:
        place = {key: at for at, key in enumerate(pairs.keys)}
        to = [at for at, key in enumerate(keys) if key in place]
        of = [place[keys[at]] for at in to]
        block = np.zeros((len(pairs.parts), len(keys)))
        block[:, to] = pairs.parts[:, of] / [comparing[keys[at]] for at in to]
        n[to] += np.asarray(pairs.n, dtype=int)[of]
        blocks.append(block)
    return _Pairs(set(having), keys, n.tolist(), np.concatenate(blocks))


def _tested(pairs: _Pairs, flips: int, key: tuple[object, ...]) -> pd.DataFrame:
    """Return difference and p-values of each pair; all pairs see the same sign flips."""
    families = [(*pair[:3], CONTROL in pair[3:]) for pair in pairs.keys]
    tests = sign_flip_tests(pairs.parts, families, flips, key)
    table = pd.DataFrame(pairs.keys, columns=PAIR)
    return table.assign(difference=pairs.parts.sum(axis=0), n=pairs.n, **tests)
