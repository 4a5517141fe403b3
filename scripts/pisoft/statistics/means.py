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
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.sign_flips import P_VALUES, sign_flip_tests

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


def sign_flip_rows(
    given: Mapping[str, pd.DataFrame], seed: int, flips: int, family: list[str]
) -> pd.DataFrame:
    """Test whether the mean of every column is 0, as :func:`mean_rows` takes them.

    Args:
        given: samples by columns.
        seed: of the run.
        flips: how many sign flips are drawn, where not all are tried.
        family: levels of the columns that the tests of a dataset's family share.

    Returns:
        The levels of the columns, `dataset` and the p-values of
        :func:`~pisoft.statistics.sign_flips.sign_flip_tests`; a mean without a value has no row.
    """
    aligned = _aligned(given)
    parts = {name: frame.fillna(0.0) / frame.notna().sum() for name, frame in aligned.items()}
    parts[AVERAGE] = pd.concat([part / len(parts) for part in parts.values()])
    tables = []
    for dataset, part in parts.items():
        known = part.loc[:, part.notna().all()]  # without a sample, 0 has been divided by 0
        levels = known.columns.to_frame(index=False)
        families = [tuple(row) for row in levels[family].to_numpy()]
        key = (seed, "sign flips", dataset)
        tests = sign_flip_tests(known.to_numpy(), families, flips, key)
        tables.append(levels.assign(dataset=dataset, **tests))
    return pd.concat(tables, ignore_index=True)


def with_tests(means: pd.DataFrame, tests: pd.DataFrame) -> pd.DataFrame:
    """Add the p-values of :func:`sign_flip_rows` to means; those without a test have none."""
    keys = [name for name in tests.columns if name not in P_VALUES]
    return means.merge(tests, on=keys, how="left", validate="one_to_one")


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
