"""Bootstrap over samples: how far a number would move with other samples of the same kind.

All methods, models and protocols of a dataset are resampled together, so that differences and
ranks of methods keep the pairing by sample. Averages over datasets resample each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata, t

from pisoft.keyed import keyed_generator
from pisoft.statistics.metrics import METRICS, Best
from pisoft.statistics.values import KEY, SampleValues

CONFIDENCE = 0.95
CHUNK = 500  # resamples at a time: their counts of 2000 samples take 8 MB
SMALLEST = 2  # samples of a dataset with an interval


@dataclass(frozen=True)
class Resampled:
    """Statistics of a dataset, or averaged over datasets.

    Attributes:
        columns: protocol, model, metric (of :data:`METRICS`), method, value, n, n_failed, and over
            how many datasets (`datasets`) with at least how many samples each (`fewest`); C rows.
        draws: each statistic of every resample, (B, C); NaN where it is undefined.
    """

    columns: pd.DataFrame
    draws: np.ndarray


def resample(given: SampleValues, seed: int, dataset: str, resamples: int) -> Resampled:
    """Take every reported statistic of a dataset, and of its resamples.

    Args:
        given: the dataset's values.
        seed: of the run; with the dataset's name it says which samples are drawn.
        dataset: its name.
        resamples: B.
    """
    wanted = _wanted(given.columns)
    known = np.isfinite(given.values)
    filled = np.where(known, given.values, 0.0)
    of, over = wanted["of"].to_numpy(), wanted["over"].to_numpy()
    by_ratio = over >= 0
    top, size = filled[:, of], known[:, of]
    bottom = np.where(by_ratio, filled[:, over], size)  # a mean is a sum over a number of samples
    draws = resampled_ratios(top, bottom, keyed_generator(seed, "bootstrap", dataset), resamples)
    n = size.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = top.sum(axis=0) / bottom.sum(axis=0)
    for place in np.flatnonzero(wanted["median"].to_numpy()):
        ordered = np.sort(given.values[size[:, place], of[place]])
        generator = keyed_generator(seed, "bootstrap of the median", dataset)
        values[place] = np.median(ordered) if ordered.size else np.nan
        draws[:, place] = resampled_medians(ordered, generator, resamples)
    numbers = {"value": values, "n": n, "n_failed": wanted["n_failed"], "datasets": 1, "fewest": n}
    return Resampled(wanted[KEY].assign(**numbers), draws)


def average(of_datasets: Sequence[Resampled]) -> Resampled:
    """Return the mean over datasets, each with equal weight; NaN where one has no value.

    A statistic is averaged over the datasets that have a column of its metric.
    """
    parts = []
    for metric in METRICS:
        having = [part for part in of_datasets if (part.columns["metric"] == metric).any()]
        if having:
            parts.append(_average(metric, having))
    columns = pd.concat([part.columns for part in parts], ignore_index=True)
    draws = np.concatenate([part.draws for part in parts], axis=1)
    return Resampled(columns, draws)


def intervals(resampled: Resampled) -> np.ndarray:
    """Return standard error and both ends of the 95 % interval of each statistic, (3, C).

    Percentile intervals of n samples are too narrow, by the factor that the normal distribution
    and a variance over n instead of n − 1 are off; they are widened to what Student's t asks for
    (Hesterberg, 2015, section 4.3). NaN where a dataset has fewer than two samples.
    """
    n, datasets, fewest = (
        resampled.columns[name].to_numpy() for name in ("n", "datasets", "fewest")
    )
    ends = np.full((3, len(n)), np.nan)
    for place in np.flatnonzero(fewest >= SMALLEST):
        draws = resampled.draws[:, place]
        draws = draws[np.isfinite(draws)]
        freedom = n[place] - datasets[place]
        widened = np.sqrt(n[place] / freedom)
        tail = norm.sf(widened * t.ppf((1 + CONFIDENCE) / 2, freedom))
        ends[:, place] = (draws.std() * widened, *np.quantile(draws, [tail, 1 - tail]))
    return ends


def ranks(values: np.ndarray, best: Best) -> np.ndarray:
    """Return ranks along the last axis, 1 for the best, mean ranks for ties; NaN has none."""
    signed = -values if best == "highest" else values
    return np.asarray(rankdata(signed, axis=-1, nan_policy="omit"))


def resampled_ratios(
    top: np.ndarray, bottom: np.ndarray, generator: np.random.Generator, resamples: int
) -> np.ndarray:
    """Return ratios of sums over resamples of n samples, (B, C), from summands (n, C).

    NaN where no sample with a value was drawn, so that `bottom` adds up to 0.
    """
    draws = np.empty((resamples, top.shape[1]))
    for first, counts in _counts(generator, len(top), resamples):
        with np.errstate(invalid="ignore", divide="ignore"):
            draws[first : first + len(counts)] = (counts @ top) / (counts @ bottom)
    return draws


def resampled_medians(
    ordered: np.ndarray, generator: np.random.Generator, resamples: int
) -> np.ndarray:
    """Return medians of resamples of n sorted values, (B,), without drawing the resamples.

    The median of n draws from the values is the value at the median of n uniform numbers, and order
    statistics of uniform numbers are known: the k-th of n is Beta(k, n + 1 − k) distributed, and
    what lies above it is uniform (David and Nagaraja, 2003, section 2.5).
    """
    n = ordered.size
    if n == 0:
        return np.full(resamples, np.nan)
    lower = (n + 1) // 2
    below = generator.beta(lower, n + 1 - lower, resamples)
    above = below
    if n % 2 == 0:
        smallest = 1 - generator.random(resamples) ** (1 / (n - lower))  # of those above
        above = below + (1 - below) * smallest
    at = np.minimum((np.stack([below, above]) * n).astype(int), n - 1)
    return ordered[at].mean(axis=0)


def resampled_column_medians(
    values: np.ndarray, generator: np.random.Generator, resamples: int
) -> np.ndarray:
    """Return medians of columns over resamples of their rows, (B, C), from values (n, C).

    Columns are resampled together, those of :func:`resampled_ratios` if the generator is the same.
    NaN has no part in a median; where no other value was drawn, the median is NaN.
    """
    draws = np.full((resamples, values.shape[1]), np.nan)
    orders = np.argsort(values, axis=0)  # NaN last
    sizes = np.isfinite(values).sum(axis=0)
    for start, counts in _counts(generator, len(values), resamples):
        for column, size in enumerate(sizes):
            order = orders[:size, column]
            if size:
                chosen = slice(start, start + len(counts))
                draws[chosen, column] = _counted_medians(values[order, column], counts[:, order])
    return draws


def _counted_medians(ordered: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return medians of sorted values (k), each so often as it counts (B, k); NaN if none does."""
    up_to = counts.cumsum(axis=1)
    size = up_to[:, -1:]
    places = [(up_to < np.ceil(number)).sum(axis=1) for number in (size / 2, (size + 1) / 2)]
    # An even number of values has two in the middle, an odd one the same twice.
    middle = [ordered[np.minimum(place, ordered.size - 1)] for place in places]
    return np.where(size[:, 0] > 0, (middle[0] + middle[1]) / 2, np.nan)


def _wanted(columns: pd.DataFrame) -> pd.DataFrame:
    """Return the reported statistics: KEY, n_failed, and where their values stand (−1: nowhere)."""
    places = columns.reset_index(names="place")
    by_sample_metric = dict(tuple(places.groupby("metric", sort=False)))
    tables = []
    for name, metric in METRICS.items():
        if metric.of not in by_sample_metric:
            continue
        table = by_sample_metric[metric.of].rename(columns={"place": "of"})
        table = table.assign(metric=name, over=-1, median=metric.median)
        if metric.over is not None:
            keys = ["protocol", "model", "method"]
            bottom = by_sample_metric[metric.over][[*keys, "place"]]
            table = table.merge(bottom, on=keys, validate="one_to_one")
            table = table.assign(over=table["place"])
        tables.append(table[[*KEY, "n_failed", "of", "over", "median"]])
    return pd.concat(tables, ignore_index=True)


def _counts(
    generator: np.random.Generator, n: int, resamples: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Return how often each resample holds each sample, (≤ CHUNK, n), with the first's number."""
    for first in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - first)
        drawn = generator.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        yield first, np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(float)


def _average(metric: str, parts: list[Resampled]) -> Resampled:
    """Average one metric over datasets."""
    chosen = [(part.columns["metric"] == metric).to_numpy() for part in parts]
    by_key = [part.columns[own].set_index(KEY) for part, own in zip(parts, chosen, strict=True)]
    keys = pd.concat([numbers[[]] for numbers in by_key]).index.drop_duplicates()
    numbers = [numbers.reindex(keys) for numbers in by_key]
    values = np.mean([part["value"].to_numpy() for part in numbers], axis=0)  # NaN if one lacks it
    draws = np.zeros((len(parts[0].draws), len(keys)))
    for part, own, found in zip(parts, chosen, by_key, strict=True):
        places = found.index.get_indexer(keys)
        draws += np.where(places >= 0, part.draws[:, own][:, places], np.nan) / len(parts)
    counts = {
        name: sum(part[name].fillna(0) for part in numbers).astype(int).to_numpy()
        for name in ("n", "n_failed")
    }
    fewest = np.min([part["n"].fillna(0).to_numpy() for part in numbers], axis=0)
    columns = keys.to_frame(index=False).assign(
        value=values, **counts, datasets=len(parts), fewest=fewest
    )
    return Resampled(columns, draws)
