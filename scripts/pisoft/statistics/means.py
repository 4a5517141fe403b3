"""Means over samples with intervals and tests, of numbers that are no metric of a method alone.

Differences, correlations and the like come as a frame per dataset: a row per sample, a column per
number, NaN where a sample has none. Columns are resampled together, and so are their signs flipped.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pisoft.keyed import keyed_generator
from pisoft.statistics.bootstrap import Resampled, intervals, resampled_ratios
from pisoft.statistics.comparisons import holm, sign_flip_p_values
from pisoft.statistics.metrics import AVERAGE

ENDS = ["standard_error", "low", "high"]


def mean_rows(given: Mapping[str, pd.DataFrame], seed: int, resamples: int) -> pd.DataFrame:
    """Return the mean of every column in every dataset, and averaged over the datasets.

    Args:
        given: samples by columns; a column that a dataset lacks has no value there.
        seed: of the run; with a dataset's name it says which samples are drawn.
        resamples: bootstrap resamples.

    Returns:
        The levels of the columns, `dataset` (:data:`AVERAGE`: their mean, each with equal weight),
        `value`, `low` and `high` (95 % bootstrap interval), `n` and `n_failed`, samples with and
        without a value. NaN where there is no value, or for an interval a single sample.
    """
    aligned = _aligned(given)
    parts = {name: _resampled(frame, seed, name, resamples) for name, frame in aligned.items()}
    parts[AVERAGE] = _average(list(parts.values()))
    tables = []
    for dataset, part in parts.items():
        table = part.columns.assign(dataset=dataset)
        table[ENDS] = intervals(part).T
        tables.append(table.drop(columns=["datasets", "fewest", "standard_error"]))
    return pd.concat(tables, ignore_index=True)


def sign_flip_rows(given: Mapping[str, pd.DataFrame], seed: int, flips: int) -> pd.DataFrame:
    """Test whether the mean of every column is 0, as :func:`mean_rows` takes them.

    If it is, the sign of a sample's number is up to chance: two-sided permutation tests.

    Returns:
        The levels of the columns, `dataset` and `p_value`; a mean without a value has no row.
    """
    aligned = _aligned(given)
    parts = {name: frame.fillna(0.0) / frame.notna().sum() for name, frame in aligned.items()}
    parts[AVERAGE] = pd.concat([part / len(parts) for part in parts.values()])
    tables = []
    for dataset, part in parts.items():
        known = part.loc[:, part.notna().all()]  # without a sample, 0 has been divided by 0
        generator = keyed_generator(seed, "sign flips", dataset)
        p_values = sign_flip_p_values(known.to_numpy(), flips, generator)
        levels = known.columns.to_frame(index=False)
        tables.append(levels.assign(dataset=dataset, p_value=p_values))
    return pd.concat(tables, ignore_index=True)


def with_tests(means: pd.DataFrame, tests: pd.DataFrame, family: list[str]) -> pd.DataFrame:
    """Add p-values to means, and those with Holm's correction over all tests of a family.

    Args:
        means: of :func:`mean_rows`.
        tests: of :func:`sign_flip_rows`; means without a test have no p-value.
        family: columns that the tests of a family share.
    """
    p_holm = tests.groupby(family, sort=False)["p_value"].transform(holm)
    keys = [name for name in tests.columns if name != "p_value"]
    return means.merge(tests.assign(p_holm=p_holm), on=keys, how="left", validate="one_to_one")


def _aligned(given: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Give every dataset the same columns in the same order."""
    columns = pd.concat([frame.iloc[:0] for frame in given.values()]).columns
    return {name: frame.reindex(columns=columns) for name, frame in given.items()}


def _resampled(frame: pd.DataFrame, seed: int, dataset: str, resamples: int) -> Resampled:
    """Return the means of a dataset's columns, and of its resamples."""
    known = frame.notna().to_numpy()
    top, size = frame.fillna(0.0).to_numpy(), known.astype(float)
    generator = keyed_generator(seed, "bootstrap", dataset)
    n = known.sum(axis=0)
    numbers = {
        "value": frame.mean().to_numpy(),
        "n": n,
        "n_failed": len(frame) - n,
        "datasets": 1,
        "fewest": n,
    }
    columns = frame.columns.to_frame(index=False).assign(**numbers)
    return Resampled(columns, resampled_ratios(top, size, generator, resamples))


def _average(parts: list[Resampled]) -> Resampled:
    """Return the mean over datasets, NaN where one has no value."""
    tables = [part.columns for part in parts]
    columns = tables[0].assign(
        value=np.mean([table["value"] for table in tables], axis=0),
        n=sum(table["n"] for table in tables),
        n_failed=sum(table["n_failed"] for table in tables),
        datasets=len(parts),
        fewest=np.min([table["n"] for table in tables], axis=0),
    )
    return Resampled(columns, np.mean([part.draws for part in parts], axis=0))
