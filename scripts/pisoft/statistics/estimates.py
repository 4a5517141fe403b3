"""Estimates from samples: every number with its interval, n and failures, and paired tests.

A dataset is a matrix of samples by columns. A column's number is a ratio of sums over its samples;
the denominators of a mean are ones. Replicates of the numbers are rows: the first row belongs to
the samples, the others to their bootstrap resamples. Anything computed row by row, such as an
average over datasets, a rank or Kendall's τ, thereby has its interval. All columns of a dataset
share their resamples and sign flips, so comparisons between methods are paired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit  # scipy.stats takes longer to import

from pisoft.config.jobs import ResamplingJob
from pisoft.seeds import keyed_generator
from pisoft.statistics.metrics import AVERAGE

CONFIDENCE = 0.95
FEWEST_FOR_INTERVAL = 2  # samples of a dataset
EXACT_TEST = 16  # samples up to which every sign flip is enumerated
TOLERANCE = 1e-9  # of Σ|parts|, within which the sum under a flip counts as equal
CHUNK = 512  # resamples or sign flips held at a time
NUMBERS = ["value", "low", "high", "standard_error", "n", "n_failed"]
P_VALUES = ["p_value", "p_adjusted", "p_smallest"]


@dataclass(frozen=True)
class Samples:
    """The measurements of one dataset, samples by columns; `metric` is a level of the columns.

    Attributes:
        numerators: a column's number is Σ numerators / Σ denominators; NaN: no value.
        denominators: the same shape.
        failed: number of failed samples of each column.
        medians: whether a column's number is the median of its numerators instead.
    """

    numerators: pd.DataFrame
    denominators: pd.DataFrame
    failed: pd.Series
    medians: Sequence[bool] = ()

    @classmethod
    def of_means(cls, values: pd.DataFrame, failed: pd.Series | None = None) -> Samples:
        """Return samples of which means are estimated; NaN counts as failed by default."""
        present = values.notna()
        return cls(values, present.astype(float), (~present).sum() if failed is None else failed)

    def of_models(self, models: Collection[str]) -> Samples:
        """Return the columns of some models; `model` is a level of the columns."""
        of_models = self.numerators.columns.isin(list(models), level="model")
        return Samples(
            self.numerators.loc[:, of_models],
            self.denominators.loc[:, of_models],
            self.failed[of_models],
            np.asarray(self.medians, dtype=bool)[of_models],
        )

    @property
    def contributions(self) -> pd.DataFrame:
        """What each sample contributes to each number; NaN in a column without a number."""
        totals = self.denominators.where(self.numerators.notna()).sum()
        return self.numerators.fillna(0.0) / totals.where(totals > 0)


@dataclass(frozen=True)
class Estimates:
    """The numbers of one dataset, or of the average over datasets.

    Attributes:
        replicates: numbers by column, (1 + B, C): of the samples, then of each resample.
        counts: `n`, `n_failed`, `datasets` and the `fewest` samples of one of these, by column.
    """

    replicates: pd.DataFrame
    counts: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """Return the keys and :data:`NUMBERS` of each column.

        Percentile intervals of n samples are too narrow, as the normal distribution and a variance
        over n instead of n − 1 are; they are widened to Student's t (Hesterberg, 2015, section
        4.3).
        """
        resampled = self.replicates.to_numpy()[1:]
        spread = np.full((3, resampled.shape[1]), np.nan)
        for column, (n, _, datasets, fewest) in enumerate(self.counts.to_numpy()):
            draws = resampled[np.isfinite(resampled[:, column]), column]
            if fewest >= FEWEST_FOR_INTERVAL and draws.size:
                widening = np.sqrt(n / (n - datasets))
                tail = ndtr(-widening * stdtrit(n - datasets, (1 + CONFIDENCE) / 2))
                ends = np.quantile(draws, [tail, 1 - tail])
                spread[:, column] = (*ends, draws.std() * widening)
        numbers = [self.replicates.iloc[0], *spread, self.counts["n"], self.counts["n_failed"]]
        named = dict(zip(NUMBERS, map(np.asarray, numbers), strict=True))
        return self.replicates.columns.to_frame(index=False).assign(**named)


def half_widths(standard_errors: pd.Series, n: pd.Series) -> pd.Series:
    """Return the half-widths of means' intervals by Student's t; NaN for n < 2 samples."""
    freedom = (n - 1).where(n > 1).astype(np.float64)
    return standard_errors * stdtrit(freedom, (1 + CONFIDENCE) / 2)


def sample_matrix(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return the column `value` as samples by keys, in order of appearance; NaN: no row."""
    groups = rows.groupby(list(keys), sort=False, observed=True)
    samples, names = pd.factorize(rows["sample_id"].astype(object))
    values = np.full((len(names), groups.ngroups), np.nan)
    values[samples, groups.ngroup().to_numpy()] = rows["value"]
    columns = rows.loc[~rows.duplicated(list(keys)), list(keys)].astype(object)
    return pd.DataFrame(values, names, pd.MultiIndex.from_frame(columns))


# Bootstrap --------------------------------------------------------------------------------------


def estimate(datasets: Mapping[str, Samples], settings: ResamplingJob) -> dict[str, Estimates]:
    """Return the estimates of every dataset, and of the average over them as `average`."""
    single = {name: _of_dataset(samples, settings, name) for name, samples in datasets.items()}
    counts = pd.concat([estimates.counts for estimates in single.values()])
    levels = [*range(counts.index.nlevels)]
    total = counts.groupby(level=levels, sort=False, dropna=False).agg(
        {"n": "sum", "n_failed": "sum", "datasets": "sum", "fewest": "min"}
    )
    weighted = _weigh_datasets([estimates.replicates for estimates in single.values()])
    replicates = sum(weighted[1:], start=weighted[0])
    return single | {AVERAGE: Estimates(replicates, total.reindex(replicates.columns))}


def estimate_rows(
    datasets: Mapping[str, Samples],
    settings: ResamplingJob,
    tested: Collection[str] = (),
    family: Sequence[str] = ("metric",),
) -> pd.DataFrame:
    """Return keys, `dataset` and numbers of every dataset and of their average.

    Args:
        datasets: samples by dataset.
        settings: seed and number of resamples.
        tested: values of the key `part` whose means are tested against 0.
        family: keys that the tests of a family share.

    Returns:
        Keys, `dataset`, :data:`NUMBERS` and, if any part is tested, its :data:`P_VALUES`.
    """
    estimates = estimate(datasets, settings)
    tables = [one.table().assign(dataset=name) for name, one in estimates.items()]
    rows = pd.concat(tables, ignore_index=True)
    if not tested:
        return rows
    chosen = {}
    for name, samples in datasets.items():
        is_tested = samples.numerators.columns.isin(list(tested), level="part")
        chosen[name] = Samples.of_means(samples.numerators.loc[:, is_tested])
    keys = [*rows.columns.difference(NUMBERS, sort=False)]
    tests = paired_tests(chosen, settings, family)[[*keys, *P_VALUES]]
    return rows.merge(tests, on=keys, how="left", validate="one_to_one")


def _weigh_datasets(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Align the columns of datasets, weighted so that their sum is the mean over the datasets.

    A column is averaged over the datasets that have its metric; it is NaN where one lacks it. So
    all models must have the same datasets.
    """
    keys = frames[0].columns.append([frame.columns for frame in frames[1:]]).unique()
    metrics = [frame.columns.get_level_values("metric").unique() for frame in frames]
    n_datasets = Counter(name for names in metrics for name in names)
    metric_of = keys.get_level_values("metric")
    weighted = []
    for frame, names in zip(frames, metrics, strict=True):
        aligned = frame.reindex(columns=keys) / [n_datasets[name] for name in metric_of]
        absent = np.broadcast_to(~metric_of.isin(names), aligned.shape)
        weighted.append(aligned.mask(absent, 0.0))
    return weighted


def medians(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the median of values (n,) repeated by counts (B, n); NaN where no value counts."""
    order = np.argsort(values)[: np.isfinite(values).sum()]  # NaN last
    cumulative = counts[:, order].cumsum(axis=1)
    size = cumulative[:, -1:] if order.size else np.zeros((len(counts), 1))
    middle = [(cumulative < np.ceil(half)).sum(axis=1) for half in (size / 2, (size + 1) / 2)]
    ordered = np.append(values[order], np.nan)  # the last where no value counts
    return np.where(size[:, 0] > 0, (ordered[middle[0]] + ordered[middle[1]]) / 2, np.nan)


def _of_dataset(samples: Samples, settings: ResamplingJob, dataset: str) -> Estimates:
    values, present = samples.numerators.to_numpy(), samples.numerators.notna().to_numpy()
    numerators = np.nan_to_num(values)
    denominators = np.where(present, samples.denominators, 0.0)
    replicates = []
    generator = keyed_generator(settings.seed, "bootstrap", dataset)
    for counts in _resample_counts(generator, len(values), settings.resamples):
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates.append((counts @ numerators) / (counts @ denominators))
        for column in np.flatnonzero(samples.medians):
            replicates[-1][:, column] = medians(values[:, column], counts)
    n, columns = present.sum(axis=0), samples.numerators.columns
    numbers = {"n": n, "n_failed": np.asarray(samples.failed), "datasets": 1, "fewest": n}
    return Estimates(
        pd.DataFrame(np.concatenate(replicates), columns=columns),
        pd.DataFrame(numbers, index=columns),
    )


def _resample_counts(
    generator: np.random.Generator, n: int, resamples: int
) -> Iterator[np.ndarray]:
    """Yield how often each of n samples counts, (…, n): once each, then resamples in chunks."""
    yield np.ones((1, n))
    for first in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - first)
        drawn = generator.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(float)


# Permutation tests ------------------------------------------------------------------------------


def paired_tests(
    datasets: Mapping[str, Samples], settings: ResamplingJob, family: Sequence[str]
) -> pd.DataFrame:
    """Test whether the numbers of every dataset and of their average are 0, by sign flips.

    Under the null hypothesis, the sign of a sample's contribution is arbitrary. Two methods are
    compared by testing the mean of their differences.

    Args:
        datasets: samples by dataset.
        settings: seed, and how many sign flips are drawn as `resamples`; up to
            :data:`EXACT_TEST` samples, all are enumerated.
        family: keys that the tests of a family share; p-values are corrected within each family.

    Returns:
        Keys, `dataset`, `value`, `n` and :data:`P_VALUES` of every column with a value.
    """
    parts = {name: samples.contributions for name, samples in datasets.items()}
    parts[AVERAGE] = pd.concat(_weigh_datasets(list(parts.values())))
    present = {name: samples.numerators.notna() for name, samples in datasets.items()}
    present[AVERAGE] = pd.concat(list(present.values()))
    tables = []
    for dataset, contributions in parts.items():
        tested = contributions.loc[:, contributions.notna().all()]
        rows = tested.columns.to_frame(index=False)
        families = rows.groupby(list(family), sort=False, dropna=False).ngroup().to_numpy()
        key = (settings.seed, "sign flips", dataset)
        tests = sign_flip_tests(tested.to_numpy(), families, settings.resamples, key)
        n = present[dataset][tested.columns].sum().to_numpy().astype(int)
        rows = rows.assign(dataset=dataset, value=tested.sum().to_numpy(), n=n)
        tables.append(rows.join(tests))
    return pd.concat(tables, ignore_index=True)


def sign_flip_tests(
    parts: np.ndarray, families: np.ndarray, flips: int, key: tuple[object, ...]
) -> pd.DataFrame:
    """Return two-sided p-values: plain, by step-down max-T, and the smallest attainable.

    Max-T (Westfall and Young 1993, algorithm 2.8) compares each mean with the largest of its
    family under the same flip. Means are not studentised: with a dozen skewed samples, studentised
    tests err in about 20 % of families.

    Args:
        parts: what each sample contributes to each mean, (samples, C).
        families: family index of each column, (C,).
        flips: how many are drawn.
        key: of the random numbers.
    """
    observed = np.abs(parts.sum(axis=0))
    threshold = observed - TOLERANCE * np.abs(parts).sum(axis=0)
    members = [np.flatnonzero(families == index) for index in np.unique(families)]
    orders = [columns[np.argsort(observed[columns])] for columns in members]
    tried = 0 if len(parts) <= EXACT_TEST else 1  # the observed signs are one of those drawn
    plain, adjusted = np.full((2, observed.size), float(tried))
    for signs in _sign_flips(len(parts), flips, key):
        sums = np.abs(signs @ parts)
        plain += (sums >= threshold).sum(axis=0)
        for order in orders:  # the largest among each column and those below it
            largest = np.maximum.accumulate(sums[:, order], axis=1)
            adjusted[order] += (largest >= threshold[order]).sum(axis=0)
        tried += len(signs)
    for order in orders:  # a larger mean never has a larger p-value
        adjusted[order] = np.maximum.accumulate(adjusted[order][::-1])[::-1]
    smallest = np.clip(2.0 ** (1 - (parts != 0).sum(axis=0)), 1 / tried, 1)
    numbers = (plain / tried, adjusted / tried, smallest)
    return pd.DataFrame(dict(zip(P_VALUES, numbers, strict=True)))


def _sign_flips(samples: int, flips: int, key: tuple[object, ...]) -> Iterator[np.ndarray]:
    """Yield sign flips in chunks, (flips, samples); if all, one of each pair of opposites."""
    if samples <= EXACT_TEST:
        numbers = np.arange(2 ** max(samples - 1, 0))[:, None]
        every = 1.0 - 2.0 * (numbers >> np.arange(samples) & 1)
        yield from np.array_split(every, -(-len(every) // CHUNK))
        return
    generator = keyed_generator(*key)
    for first in range(0, flips, CHUNK):
        size = (min(CHUNK, flips - first), samples)
        yield 1.0 - 2.0 * generator.integers(0, 2, size, dtype=np.int8)
