"""Each published number beside the run's, and how far single datasets decide the published order.

A run's number is compared only if it is of the published model and datasets; see
:func:`pisoft.config.slices.published_slice`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pandas as pd

from pisoft.statistics.layer_study import LEAKY, depth_statistics
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.orders import kendall_taus
from pisoft.statistics.published import (
    COLUMN,
    DATASETS,
    LEAKY_METHODS,
    METRICS,
    VARIANTS,
    columns_of,
    matrix,
)
from pisoft.statistics.published_settings import Difference
from pisoft.statistics.results import results_table, select
from pisoft.statistics.robustness import leave_one_out, order_changes

INSIDE = "inside"
OUTSIDE = "outside"
NO_INTERVAL = "no interval"
OTHER_MACHINE = "other machine"  # times, which are shown and not judged
COMPARED = (INSIDE, OUTSIDE, NO_INTERVAL, OTHER_MACHINE)  # outcomes with a number of the run
OTHER_MODEL = "other model"
OTHER_DATASET = "other dataset"
OTHER_SETTINGS = "other settings"  # that decide the number
OTHER_AVERAGE = "other average"  # over other datasets than the paper's
NOT_RUN = "not run"
NO_VALUE = "no value"  # nothing could be evaluated
SECONDS = "seconds_per_sample"
_CELL = [*COLUMN, "dataset", "method"]
_NUMBERS = ["value", "low", "high", "n", "n_failed"]


def compare(
    published: pd.DataFrame,
    statistics: pd.DataFrame,
    timings: pd.DataFrame,
    *,
    other_models: Collection[str],
    other_datasets: Collection[str],
    unlike: Iterable[Difference] = (),
) -> pd.DataFrame:
    """Set every published number beside the run's.

    A published number stands for all numbers that are printed so: it is `inside` if one of them
    lies in the run's interval.

    Args:
        published: rows of :func:`pisoft.statistics.published.load_published`.
        statistics: rows of kind `statistics`.
        timings: rows of kind `timings`.
        other_models: models of the run that are not the published ones, whatever their name.
        other_datasets: the same of datasets.
        unlike: settings of the run that are not the paper's.

    Returns:
        The published rows, `value` renamed `published`, and behind them those of Grad-ELLM once
        more for every one of :data:`VARIANTS` that the run has (`variant` is true), with the run's
        `value`, `low`, `high`, `n` and `n_failed` where they are of the same, the `difference` (run
        minus paper), and the `outcome`: one of :data:`COMPARED`, or why there is no number of the
        run.
    """
    ours = _numbers_of_run(statistics, timings)
    printed = _with_variants(published, ours).rename(columns={"value": "published"})
    cells = printed.merge(ours, on=_CELL, how="left")
    other_settings = np.zeros(len(cells), dtype=bool)
    for difference in unlike:
        other_settings |= difference.decides & difference.concerns(cells).to_numpy()
    cells["outcome"] = _outcomes(cells, ours, other_models, other_datasets, other_settings)
    of_same = cells["outcome"].isin([*COMPARED, NO_VALUE])
    cells[_NUMBERS] = cells[_NUMBERS].where(of_same)
    return cells.assign(difference=cells["value"] - cells["published"])


def agreement(cells: pd.DataFrame) -> pd.DataFrame:
    """Summarise the comparison of each published column of a dataset.

    Args:
        cells: rows of :func:`compare`.

    Returns:
        One row per protocol, model, metric and dataset: how many cells are `compared`, `inside`,
        `outside` and with `no_interval`, and `kendall_tau` between the published and the run's
        order of the methods that are compared (NaN below two of them).
    """
    rows = []
    for key, column in cells[~cells["variant"]].groupby([*COLUMN, "dataset"], sort=False):
        compared = column[column["outcome"].isin(COMPARED)].set_index("method")
        rows.append(
            {
                **dict(zip([*COLUMN, "dataset"], key, strict=True)),
                "compared": len(compared),
                "inside": int((compared["outcome"] == INSIDE).sum()),
                "outside": int((compared["outcome"] == OUTSIDE).sum()),
                "no_interval": int((compared["outcome"] == NO_INTERVAL).sum()),
                "kendall_tau": float(kendall_taus(compared["published"], compared["value"])),
            }
        )
    return pd.DataFrame(rows)


def published_robustness(published: pd.DataFrame) -> pd.DataFrame:
    """Leave each dataset out of the published averages, which are computed from the printed cells.

    Returns:
        Rows of `ranks` for every protocol, model and metric with an average: of part `without`
        those of :func:`pisoft.statistics.robustness.leave_one_out`, and of part `kendall_tau` the
        τ-b of each order with that on all datasets, without a method.
    """
    parts = []
    for key, column in columns_of(published).items():
        values = matrix(column)
        best = METRICS[key[-1]].best
        if AVERAGE not in values.index or best is None:
            continue
        averages = leave_one_out(values.drop(index=AVERAGE), best)
        changes = order_changes(averages)
        first = changes.set_index("other")["best"].str[0]
        keys = {**dict(zip(COLUMN, key, strict=True)), "dataset": AVERAGE}
        averages = averages.assign(part="without", best=averages["other"].map(first), **keys)
        taus = changes.assign(part="kendall_tau", value=changes["kendall_tau"], **keys)
        parts += [averages, taus[["other", "part", "value", *keys]]]
    return results_table("ranks", parts).to_pandas()


def leaky_statistics(study: pd.DataFrame) -> pd.DataFrame:
    """Return Grad-ELLM at the depth that is best on all samples, as rows of `statistics`.

    Args:
        study: rows of kind `layer_study`.
    """
    numbers = select(depth_statistics(study), part=LEAKY)
    numbers = numbers.assign(method=numbers["method"].map(LEAKY_METHODS))
    groups = numbers.groupby([*COLUMN, "method"], sort=False)
    sums = groups[["value", "n", "n_failed"]].sum(min_count=len(DATASETS)).reset_index()
    averages = sums.assign(dataset=AVERAGE, value=sums["value"] / len(DATASETS))
    every = pd.concat([numbers, averages.dropna()], ignore_index=True)
    return every[[*_CELL, *_NUMBERS]]


def _with_variants(published: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Add the rows of Grad-ELLM for every variant of the run that its column does not print."""
    keys = [*COLUMN, "dataset"]
    printed = published.assign(variant=False)
    measured = ours[ours["method"].isin(VARIANTS)][[*keys, "method"]]
    plain = printed[printed["method"] == "grad_ellm"].drop(columns="method")
    added = plain.merge(measured, on=keys).assign(variant=True)
    known = pd.MultiIndex.from_frame(printed[_CELL])
    added = added[~pd.MultiIndex.from_frame(added[_CELL]).isin(known)]
    order = {name: place for place, name in enumerate(VARIANTS)}
    added = added.sort_values("method", key=lambda names: names.map(order), kind="stable")
    return pd.concat([printed, added], ignore_index=True)


def _numbers_of_run(statistics: pd.DataFrame, timings: pd.DataFrame) -> pd.DataFrame:
    """Return the run's numbers by cell; times have no protocol and no interval."""
    times = select(timings, metric=SECONDS)
    return pd.concat([statistics, times])[[*_CELL, *_NUMBERS]]


def _outcomes(
    cells: pd.DataFrame,
    ours: pd.DataFrame,
    other_models: Collection[str],
    other_datasets: Collection[str],
    other_settings: np.ndarray,
) -> np.ndarray:
    """Return the outcome of every cell, the first that applies."""
    half = 0.5 * 10.0 ** -cells["decimals"]  # what rounding may have changed
    published = cells["published"]
    averages_differ = (cells["dataset"] == AVERAGE) & ~_over_same_datasets(cells, ours)
    reaches = (cells["low"] <= published + half) & (published - half <= cells["high"])
    return np.select(
        [
            cells["model"].isin(list(other_models)),
            cells["dataset"].isin(list(other_datasets)),
            other_settings,
            cells["n"].isna(),
            averages_differ,
            cells["value"].isna(),
            cells["metric"] == SECONDS,
            cells[["low", "high"]].isna().any(axis=1),
            reaches,
        ],
        [
            OTHER_MODEL,
            OTHER_DATASET,
            OTHER_SETTINGS,
            NOT_RUN,
            OTHER_AVERAGE,
            NO_VALUE,
            OTHER_MACHINE,
            NO_INTERVAL,
            INSIDE,
        ],
        default=OUTSIDE,
    )


def _over_same_datasets(cells: pd.DataFrame, ours: pd.DataFrame) -> pd.Series:
    """Return for every cell whether its column has the same datasets in the paper and the run."""
    with_value = ours[ours["value"].notna()]
    printed, found = (
        rows[rows["dataset"] != AVERAGE].groupby(COLUMN)["dataset"].agg(frozenset)
        for rows in (cells, with_value)
    )
    same = printed == found.reindex(printed.index)
    return pd.Series(pd.MultiIndex.from_frame(cells[COLUMN]).map(same), index=cells.index)
