"""Paired permutation tests of every pair of methods, on the samples that both have.

If two methods are equally good, the sign of a sample's difference is up to chance: the p-value is
the share of sign flips that give a mean difference at least as large (twice the smaller tail).
Holm's correction is over all pairs of a cell, not over those with the best method alone: the best
was picked by looking at the same numbers, and only the larger family allows for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import permutation_test
from statsmodels.stats.multitest import multipletests

from pisoft.keyed import keyed_generator
from pisoft.statistics.metrics import METRICS
from pisoft.statistics.values import SampleValues

CHUNK = 500  # sign flips at a time: those of 10,000 samples take 400 MB inside SciPy
COLUMNS = 4096  # pairs at a time: their differences under 10,000 flips take 330 MB
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
        flips: how many sign flips are drawn; every one is tried where there are no more.
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
    p_values = [
        sign_flip_p_values(pairs.parts[:, first : first + COLUMNS], flips, keyed_generator(*key))
        for first in range(0, len(pairs.keys), COLUMNS)
    ]
    table = pd.DataFrame(pairs.keys, columns=PAIR).assign(
        difference=pairs.parts.sum(axis=0), n=pairs.n, p_value=np.concatenate([[], *p_values])
    )
    cells = table.groupby(CELL, sort=False, dropna=False)["p_value"]
    return table.assign(p_holm=cells.transform(holm))


def sign_flip_p_values(parts: np.ndarray, flips: int, generator: np.random.Generator) -> np.ndarray:
    """Return two-sided p-values of the sums of columns, (C,), under sign flips of whole rows.

    Args:
        parts: what each sample adds to each statistic, (samples, C).
        flips: how many sign flips are drawn; every one is tried where there are no more.
        generator: of the flips.
    """
    if len(parts) < 2 or not parts.size:
        # SciPy asks for two observations; a single one may have either sign.
        return np.ones(parts.shape[1])
    found = permutation_test(
        (np.ones(len(parts)),),  # of a single sample, signs are flipped
        lambda signs, axis: signs @ parts,
        permutation_type="samples",
        vectorized=True,
        n_resamples=flips,
        batch=CHUNK,
        axis=-1,
        rng=generator,
    )
    return np.asarray(found.pvalue)


def holm(p_values: pd.Series) -> np.ndarray:
    """Return p-values with Holm's correction over all of them."""
    return multipletests(p_values, method="holm")[1]
