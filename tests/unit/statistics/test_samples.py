"""Clustered samples: singletons, duplicates, standard errors and tests."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from statsmodels.api import OLS

from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.statistics.estimates import estimate_rows, paired_tests
from pisoft.statistics.samples import Samples, mean_rows

DRAWING = ResamplingJob(seed=1, resamples=300)


def skewed(n, columns=3, shift=0.4):
    """Skewed ratios of n samples, some of which failed; the last column is a median."""
    generator = np.random.default_rng(n)
    values = generator.gamma(1, size=(n, columns)) - shift
    values[generator.random(values.shape) < 0.1] = np.nan
    top, bottom = table_of(values), table_of(generator.gamma(3, size=values.shape))
    return Samples(top, bottom, top.isna().sum(), [False] * (columns - 1) + [True])


def table_of(values):
    keys = [("m", method) for method in range(values.shape[1])]
    columns = pd.MultiIndex.from_tuples(keys, names=["metric", "method"])
    return pd.DataFrame(values, [f"s{k}" for k in range(len(values))], columns)


def twice(samples):
    """Every sample and a copy of it in the same cluster."""
    top, bottom = (
        pd.concat([frame, frame.set_axis(frame.index + "'")])
        for frame in (samples.numerators, samples.denominators)
    )
    clusters = {name: name.rstrip("'") for name in top.index}
    return Samples(top, bottom, 2 * samples.failed, samples.medians, clusters)


def numbers(dataset_samples):
    """Estimates and tests of a small dataset, beside a large one that has no clusters."""
    datasets = {"d": dataset_samples, "other": skewed(20)}
    rows = estimate_rows(datasets, DRAWING)
    tests = paired_tests(datasets, DRAWING, ["metric"], margin=0.5)
    return rows, tests


def test_singleton_clusters_change_no_bit():
    samples = skewed(14)
    alone = replace(samples, clusters={name: f"of {name}" for name in samples.numerators.index})
    for one, other in zip(numbers(samples), numbers(alone), strict=True):
        assert_frame_equal(one, other, check_exact=True)
        assert one["n_clusters"].isna().all()


def test_duplicates_within_clusters_change_only_n():
    samples = skewed(14)
    for once, doubled in zip(numbers(samples), numbers(twice(samples)), strict=True):
        counts = [name for name in ("n", "n_failed", "n_clusters") if name in once]
        assert_frame_equal(once.drop(columns=counts), doubled.drop(columns=counts), rtol=1e-9)
        in_d = once["dataset"] == "d"
        assert (doubled["n"] - once["n"])[in_d].tolist() == once["n"][in_d].tolist()
        assert doubled["n_clusters"][in_d].tolist() == once["n"][in_d].tolist()
        assert doubled["n_clusters"][once["dataset"] == "other"].isna().all()


def test_means_equal_a_regression_with_clustered_errors():
    samples = skewed(40, columns=2)
    values = samples.numerators.iloc[:, [0]]
    clusters = {name: str(k // 3 if k < 20 else k) for k, name in enumerate(values.index)}
    samples = Samples.for_means(values, clusters)
    present = values.iloc[:, 0].dropna()
    groups = pd.factorize(present.index.map(clusters))[0]
    fit = OLS(present, np.ones(len(present))).fit(cov_type="cluster", cov_kwds={"groups": groups})
    count = groups.max() + 1
    error = samples.moment_roots.iloc[0, 0] * np.sqrt(count / (count - 1))
    assert error == pytest.approx(fit.bse.iloc[0])
    assert samples.counts["n_clusters"].tolist() == [count]
    for given, expected in ((clusters, (fit.bse.iloc[0], count)), ({}, (present.sem(), np.nan))):
        row = mean_rows(values, given)[["standard_error", "n_clusters"]].iloc[0]
        assert row.tolist() == pytest.approx(list(expected), nan_ok=True)
