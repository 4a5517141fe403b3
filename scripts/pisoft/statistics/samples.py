"""The measurements of a dataset, samples by columns.

Samples of one cluster, such as questions about the same text, are not independent. A number is the
same ratio of sums over samples and over clusters, so everything that needs independence (standard
errors, skewness, resamples, sign flips) uses the sums of clusters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit  # scipy.stats takes longer to import

from pisoft.statistics.intervals import CONFIDENCE, ROUNDING, moment_roots, share_ends


@dataclass(frozen=True)
class Samples:
    """The measurements of one dataset, samples by columns; `metric` is a level of the columns.

    Attributes:
        numerators: the number of a column is Σ numerators / Σ denominators; NaN: no value.
        denominators: the same shape.
        failed: number of failed samples of each column.
        medians: whether the number of a column is the median of its numerators instead.
        clusters: clusters of dependent samples, by `sample_id`.
    """

    numerators: pd.DataFrame
    denominators: pd.DataFrame
    failed: pd.Series
    medians: Sequence[bool] = ()
    clusters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def for_means(cls, values: pd.DataFrame, clusters: Mapping[str, str] | None = None) -> Samples:
        """Return samples for estimating means; NaN counts as failed."""
        present = values.notna()
        return cls(values, present.astype(float), (~present).sum(), clusters=clusters or {})

    def for_models(self, models: Collection[str]) -> Samples:
        """Return the columns of some models; `model` is a level of the columns."""
        is_chosen = self.numerators.columns.isin(list(models), level="model")
        return Samples(
            self.numerators.loc[:, is_chosen],
            self.denominators.loc[:, is_chosen],
            self.failed[is_chosen],
            np.asarray(self.medians, dtype=bool)[is_chosen],
            self.clusters,
        )

    @cached_property
    def cluster_index(self) -> np.ndarray:
        """The index of each sample's cluster, (n,); an independent sample is its own cluster."""
        samples = self.numerators.index
        if not self.clusters:
            return np.arange(len(samples))
        return pd.factorize(samples.map(lambda name: self.clusters.get(name, name)))[0]

    @property
    def counts(self) -> pd.DataFrame:
        """By column, `n`, `n_failed`, `n_clusters`, `datasets` (1) and `fewest` (the clusters)."""
        present = self.numerators.notna()
        clusters = self._by_cluster(present).gt(0).sum()
        counts = {"n": present.sum(), "n_failed": np.asarray(self.failed), "n_clusters": clusters}
        return pd.DataFrame({**counts, "datasets": 1, "fewest": clusters})

    @property
    def contributions(self) -> pd.DataFrame:
        """The contribution of each cluster to each number, (G, C); NaN: no number."""
        return self._by_cluster(self.numerators.fillna(0.0) / self._totals)

    @property
    def deviations(self) -> pd.DataFrame:
        """The contributions minus their expectation if every sample had the column's number."""
        contributions = self.contributions
        deviations = contributions - contributions.sum(skipna=False) * self._shares
        return deviations.mask(deviations.abs() <= ROUNDING * contributions.abs().sum(), 0.0)

    @property
    def moment_roots(self) -> pd.DataFrame:
        """The :func:`moment_roots` of each number, (4, C); NaN for medians."""
        roots = moment_roots(self.deviations.to_numpy(), self._shares.to_numpy())
        roots[:, np.flatnonzero(self.medians)] = np.nan
        return pd.DataFrame(roots, columns=self.numerators.columns)

    def _by_cluster(self, values: pd.DataFrame) -> pd.DataFrame:
        """Sum the values of samples (n, C) by cluster, (G, C)."""
        if not self.clusters:
            return values
        return values.groupby(self.cluster_index).sum(min_count=1)

    @property
    def _shares(self) -> pd.DataFrame:
        shares = self.denominators.where(self.numerators.notna(), 0.0) / self._totals
        return self._by_cluster(shares)

    @property
    def _totals(self) -> pd.Series:
        totals = self.denominators.where(self.numerators.notna()).sum()
        return totals.where(totals > 0)


def mean_rows(values: pd.DataFrame, clusters: Mapping[str, str]) -> pd.DataFrame:
    """Return the mean of each column of samples, its `standard_error`, and Student's interval.

    They are cluster-robust if there are fewer clusters (`n_clusters`, else NaN) than samples.
    """
    samples = Samples.for_means(values, clusters)
    n, clustered = samples.counts["n"], samples.counts["n_clusters"]
    n_clusters = clustered.where(clustered < n)
    scale = np.sqrt(n_clusters / (n_clusters - 1).where(n_clusters > 1))
    errors = values.sem().mask(n_clusters.notna(), samples.moment_roots.iloc[0] * scale)
    freedom = (clustered - 1).where(clustered > 1).astype(np.float64)
    mean, width = values.mean(), errors * stdtrit(freedom, (1 + CONFIDENCE) / 2)
    rows = {"value": mean, "standard_error": errors, "low": mean - width, "high": mean + width}
    return pd.DataFrame({**rows, "n_clusters": n_clusters})


def share_rows(hits: pd.DataFrame, clusters: Mapping[str, str]) -> pd.DataFrame:
    """Return the share of each column of samples, numbers between 0 and 1, and Wilson's interval.

    With fewer clusters than samples, it uses the variance between clusters; see :func:`mean_rows`.
    """
    rows = mean_rows(hits, clusters)
    n, shares, tail = hits.count(), rows["value"], (1 + CONFIDENCE) / 2
    is_clustered = rows["n_clusters"].notna()
    errors = np.sqrt(shares * (1 - shares) / n).mask(is_clustered, rows["standard_error"])
    freedom = (rows["n_clusters"] - 1).where(rows["n_clusters"] > 1)
    reach = stdtrit(freedom, tail).where(is_clustered, ndtri(tail))
    number = rows["n_clusters"].fillna(n)
    ends = share_ends(*(column.to_numpy(float) for column in (shares, errors, reach, number)))
    return rows.assign(low=ends[0], high=ends[1])


def sample_matrix(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return the column `value` as samples by keys, in order of appearance; NaN: no row."""
    groups = rows.groupby(list(keys), sort=False, observed=True)
    samples, names = pd.factorize(rows["sample_id"].astype(object))
    values = np.full((len(names), groups.ngroups), np.nan)
    values[samples, groups.ngroup().to_numpy()] = rows["value"]
    columns = rows.loc[~rows.duplicated(list(keys)), list(keys)].astype(object)
    return pd.DataFrame(values, names, pd.MultiIndex.from_frame(columns))
