"""Estimates from samples: every number with its interval, n and failures, and paired tests.

A dataset is a matrix of samples by columns. The number of a column is a ratio of sums over its
samples; for a mean, the denominators are ones. Replicates of the numbers are rows: the first row is
the sample, the others are bootstrap resamples. Anything computed row by row, such as an average
over datasets, a rank or Kendall's τ, thus has an interval. All columns of a dataset share resamples
and sign flips, so comparisons between methods are paired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit  # scipy.stats takes longer to import

from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.seeds import keyed_generator
from pisoft.statistics.intervals import (
    CONFIDENCE,
    adjusted_ends,
    equivalence_p_values,
    freedom_of_sum,
    share_ends,
    skewness,
    summed_roots,
)
from pisoft.statistics.mean_tests import bootstrap_tests, holm, resample_counts, sign_flip_tests
from pisoft.statistics.metrics import AVERAGE, SHARES
from pisoft.statistics.samples import Samples

FEWEST_FOR_INTERVAL = 2  # independent samples of a dataset
NUMBERS = ["value", "low", "high", "standard_error", "skewness", "n", "n_clusters", "n_failed"]
P_VALUES = ["p_value", "p_adjusted", "p_smallest", "p_sign_flip", "p_sign_flip_adjusted"]
TESTED = [*P_VALUES, "detectable", "p_equivalence"]


@dataclass(frozen=True)
class Estimates:
    """The numbers of one dataset, or of the average over datasets.

    Attributes:
        replicates: numbers by column, (1 + B, C): the estimate, then one row per resample.
        counts: by column, `n`, `n_failed`, `n_clusters`, `datasets`, and the `fewest` clusters of
            any of these.
        roots: :func:`moment_roots` of means and ratios of sums, (4, C); NaN for other numbers, None
            if there are only others.
        averaged: the datasets' estimates, if this is an average.
    """

    replicates: pd.DataFrame
    counts: pd.DataFrame
    roots: pd.DataFrame | None = None
    averaged: Sequence[Estimates] = ()

    def table(self) -> pd.DataFrame:
        """Return the keys and :data:`NUMBERS` of each column.

        Intervals use Hall's t (:func:`adjusted_ends`), Wilson's method for :data:`SHARES`
        (:func:`share_ends`), or, without moments, percentiles of the resamples, widened to
        Student's t (Hesterberg, 2015, section 4.3). Averages of means use Welch's degrees of
        freedom (:func:`freedom_of_sum`); averages of shares add the half-widths of the datasets'
        intervals in quadrature (Zou and Donner, 2008).
        """
        values, resampled = self.replicates.to_numpy()[0], self.replicates.to_numpy()[1:]
        n, n_failed, clusters, *_ = self.counts.to_numpy().T
        widening, reach = self._widening_and_reach()
        roots = np.full((4, values.size), np.nan) if self.roots is None else self.roots.to_numpy()
        below, above = adjusted_ends(roots, reach)
        low, high, errors = values - below, values + above, np.full(values.size, np.nan)
        if self.roots is not None:
            shares = self.roots.columns.isin(SHARES, level="metric") & np.isfinite(roots[0])
            low, high = np.where(shares, self._share_ends(), [low, high])
        for column in np.flatnonzero(np.isfinite(reach)):
            draws = resampled[np.isfinite(resampled[:, column]), column]
            if draws.size:
                errors[column] = draws.std() * widening[column]
                if np.isnan(low[column]):
                    tail = ndtr(-reach[column])
                    low[column], high[column] = np.quantile(draws, [tail, 1 - tail])
        spread = (low, high, errors, np.where(np.isfinite(reach), skewness(roots), np.nan))
        numbers = [values, *spread, n, np.where(clusters < n, clusters, np.nan), n_failed]
        columns = dict(zip(NUMBERS, map(np.asarray, numbers), strict=True))
        return self.replicates.columns.to_frame(index=False).assign(**columns)

    def clusters_of(self, columns: pd.MultiIndex) -> np.ndarray:
        """Return the number of clusters in each column, (C,); 0 for an absent column."""
        return self.counts["n_clusters"].reindex(columns).fillna(0).to_numpy(float)

    def _widening_and_reach(self) -> tuple[np.ndarray, np.ndarray]:
        """Return small-sample factors of standard errors, and the reach of intervals, (C,) each."""
        _, _, clusters, datasets, fewest = self.counts.to_numpy().T
        freedom = np.where(fewest >= FEWEST_FOR_INTERVAL, clusters - datasets, np.nan)
        widening = np.sqrt(clusters / freedom)
        if self.averaged:
            weighted = _weigh_datasets([r for one in self.averaged if (r := one.roots) is not None])
            errors = np.stack([frame.iloc[0] for frame in weighted])
            sizes = np.stack([one.clusters_of(self.replicates.columns) for one in self.averaged])
            freedom, widening = np.where(
                np.isfinite(errors).all(axis=0), freedom_of_sum(errors, sizes), [freedom, widening]
            )
        return widening, widening * stdtrit(freedom, (1 + CONFIDENCE) / 2)

    def _share_ends(self) -> np.ndarray:
        """Return the ends of the intervals of shares, (2, C)."""
        values, columns = self.replicates.to_numpy()[0], self.replicates.columns
        if not self.averaged:
            assert self.roots is not None
            _, reach = self._widening_and_reach()
            return share_ends(values, self.roots.to_numpy()[0], reach, self.clusters_of(columns))
        ends = []
        for one in self.averaged:
            away = np.abs(one._share_ends() - one.replicates.to_numpy()[0])
            ends.append(pd.DataFrame(away, columns=one.replicates.columns))
        away = np.sqrt(sum(frame.to_numpy() ** 2 for frame in _weigh_datasets(ends)))
        return np.array([[-1], [1]]) * away + values


# Bootstrap --------------------------------------------------------------------------------------


def estimate(datasets: Mapping[str, Samples], settings: ResamplingJob) -> dict[str, Estimates]:
    """Return the estimates of every dataset, and of the average over them as `average`."""
    single = {name: _of_dataset(samples, settings, name) for name, samples in datasets.items()}
    counts = pd.concat([estimates.counts for estimates in single.values()])
    levels = [*range(counts.index.nlevels)]
    total = counts.groupby(level=levels, sort=False, dropna=False).agg(
        {"n": "sum", "n_failed": "sum", "n_clusters": "sum", "datasets": "sum", "fewest": "min"}
    )
    weighted = _weigh_datasets([estimates.replicates for estimates in single.values()])
    replicates = sum(weighted[1:], start=weighted[0])
    roots = _weigh_datasets([estimates.roots for estimates in single.values()])
    summed = pd.DataFrame(summed_roots(roots), columns=replicates.columns)
    total = total.reindex(replicates.columns)
    return single | {AVERAGE: Estimates(replicates, total, summed, tuple(single.values()))}


def estimate_rows(datasets: Mapping[str, Samples], settings: ResamplingJob) -> pd.DataFrame:
    """Return keys, `dataset` and :data:`NUMBERS` of every dataset and of their average."""
    estimates = estimate(datasets, settings)
    tables = [one.table().assign(dataset=name) for name, one in estimates.items()]
    return pd.concat(tables, ignore_index=True)


def estimate_cells(
    cells: Mapping[tuple[Any, ...], pd.DataFrame],
    settings: ResamplingJob,
    clusters: Mapping[str, str],
    keys: Sequence[str] = ("protocol", "model"),
    tested: Collection[str] = (),
    family: Sequence[str] = ("metric",),
    failed: Mapping[tuple[Any, ...], pd.Series] | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the :func:`estimate_rows` of means over samples, with their keys.

    Args:
        cells: samples by columns, NaN: no value, by the values of the keys and the dataset.
        settings: seed and number of resamples.
        clusters: of samples, by `sample_id`.
        keys: names of the keys before the dataset.
        tested: values of the key `part` whose means are tested against 0 (:data:`TESTED`).
        family: keys that the tests of a family share.
        failed: number of failed samples by column of each cell; by default, samples without a
            value.
    """
    groups: dict[tuple[Any, ...], dict[str, pd.DataFrame]] = {}
    for (*group, dataset), values in cells.items():
        groups.setdefault((*group,), {})[dataset] = values
    for key, datasets in groups.items():
        samples = {name: Samples.for_means(values, clusters) for name, values in datasets.items()}
        if failed:
            for name, one in samples.items():
                samples[name] = replace(one, failed=failed[*key, name])
        rows = estimate_rows(samples, settings)
        if tested:
            for name, values in datasets.items():
                is_tested = values.columns.isin(list(tested), level="part")
                samples[name] = Samples.for_means(values.loc[:, is_tested], clusters)
            on = [*rows.columns.difference(NUMBERS)]
            tests = paired_tests(samples, settings, family)[[*on, *TESTED]]
            rows = rows.merge(tests, on=on, how="left", validate="one_to_one")
        yield rows.assign(**dict(zip(keys, key, strict=True)))


def _weigh_datasets(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Align the columns of datasets, weighted so that their sum is the mean over datasets.

    A column is averaged over the datasets that have its metric, and NaN if one of them lacks the
    column. All models must have the same datasets.
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
    index = samples.cluster_index
    for cluster_counts in resample_counts(generator, np.unique(index).size, settings.resamples):
        counts = cluster_counts[:, index]
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates.append((counts @ numerators) / (counts @ denominators))
        for column in np.flatnonzero(samples.medians):
            replicates[-1][:, column] = medians(values[:, column], counts)
    numbers = pd.DataFrame(np.concatenate(replicates), columns=samples.numerators.columns)
    return Estimates(numbers, samples.counts, samples.moment_roots)


# Tests ------------------------------------------------------------------------------------------


def paired_tests(
    datasets: Mapping[str, Samples],
    settings: ResamplingJob,
    family: Sequence[str],
    margin: float | None = None,
) -> pd.DataFrame:
    """Test whether the numbers of every dataset and of their average are 0.

    Two methods are compared by testing the mean of their differences. `p_value` and `p_adjusted`
    test that mean (:func:`bootstrap_tests`). `p_sign_flip` and `p_sign_flip_adjusted` test a
    stronger null hypothesis, that the methods are exchangeable (:func:`sign_flip_tests`). No
    p-value, including `p_equivalence`, is below that of n equal signs, 2^(1 − n).

    Args:
        datasets: samples by dataset.
        settings: seed and number of resamples and sign flips.
        family: keys that the tests of a family share; p-values are corrected within each family.
        margin: equivalence margin around 0; None: equivalence is not tested.

    Returns:
        Keys, `dataset`, `value`, `n`, `n_clusters` and :data:`TESTED` of every column with a value.
    """
    contributions = _by_dataset({name: one.contributions for name, one in datasets.items()})
    deviations = _by_dataset({name: one.deviations for name, one in datasets.items()})
    roots = _by_dataset({name: one.moment_roots for name, one in datasets.items()})
    counts = {name: one.counts[["n", "n_clusters"]] for name, one in datasets.items()}
    tables = []
    for dataset, by_dataset in contributions.items():
        parts = pd.concat(list(by_dataset.values()))
        parts = parts.loc[:, parts.notna().all()]
        columns, values = parts.columns, parts.sum().to_numpy()
        sizes = np.stack([counts[name].reindex(columns, fill_value=0) for name in by_dataset])
        n, clusters = sizes.sum(axis=0).T
        rows = columns.to_frame(index=False).assign(dataset=dataset, value=values, n=n)
        rows["n_clusters"] = np.where(clusters < n, clusters, np.nan)
        families = rows.groupby(list(family), sort=False, dropna=False).ngroup().to_numpy()
        around = {name: frame[columns].to_numpy() for name, frame in deviations[dataset].items()}
        rows = rows.join(bootstrap_tests(parts.to_numpy(), around, families, settings))
        key = (settings.seed, "sign flips", dataset)
        rows = rows.join(sign_flip_tests(parts.to_numpy(), families, settings.resamples, key))
        rows["p_equivalence"] = np.nan
        if margin is not None:
            dataset_roots = [frame[columns].to_numpy() for frame in roots[dataset].values()]
            freedom, factor = freedom_of_sum(np.stack(dataset_roots)[:, 0], sizes[..., 1])
            total = summed_roots(dataset_roots)
            p_values = equivalence_p_values(total, values, margin, freedom * factor**2, freedom)
            rows["p_equivalence"] = np.maximum(holm(p_values, families), 2.0 ** (1 - clusters))
        tables.append(rows)
    return pd.concat(tables, ignore_index=True)


def _by_dataset(frames: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, pd.DataFrame]]:
    """Return, for each dataset and the average, the frames by dataset whose sum it is."""
    weighted = dict(zip(frames, _weigh_datasets(list(frames.values())), strict=True))
    return {name: {name: frame} for name, frame in frames.items()} | {AVERAGE: weighted}
