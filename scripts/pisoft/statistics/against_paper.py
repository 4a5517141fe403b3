"""Published numbers compared with the run's, and the robustness of the published order.

A number is compared only if the run has the published model and datasets; see
:func:`pisoft.config.jobs.PublishedJob`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pandas as pd

from pisoft.statistics.layer_study import LEAKY, depth_statistics
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.orders import kendall_taus, leave_one_out, order_changes
from pisoft.statistics.published import (
    COLUMN,
    DATASETS,
    LEAKY_METHODS,
    METRICS,
    VARIANTS,
    averaged_columns,
)
from pisoft.statistics.published_settings import Comparison
from pisoft.statistics.results import select, summary_table

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
    unlike: Iterable[Comparison] = (),
) -> pd.DataFrame:
    """Set every published number beside the run's.

    A published number stands for all numbers that round to it: it is `inside` if one of them lies
    in the run's interval.

    Args:
        published: rows of :func:`pisoft.statistics.published.load_published`.
        statistics, timings: results of the run.
        other_models: models of the run that differ from the published ones of the same name.
        other_datasets: the same for datasets.
        unlike: settings of the run that differ from the paper's.

    Returns:
        The published rows, `value` renamed `published`; those of Grad-ELLM are repeated for each of
        :data:`VARIANTS` that the run has (`variant` is true). Added are the run's numbers where
        comparable, the `difference` (run minus paper), and the `outcome`: one of :data:`COMPARED`,
        or the reason why the run has no number.
    """
    ours = pd.concat([statistics, select(timings, metric=SECONDS)])[[*_CELL, *_NUMBERS]]
    printed = _with_variants(published, ours).rename(columns={"value": "published"})
    cells = printed.merge(ours, on=_CELL, how="left")
    other_settings = np.zeros(len(cells), dtype=bool)
    for difference in unlike:
        other_settings |= difference.decides & difference.concerns(cells).to_numpy()
    cells["outcome"] = _outcomes(cells, ours, other_models, other_datasets, other_settings)
    is_same_setting = cells["outcome"].isin([*COMPARED, NO_VALUE])
    cells[_NUMBERS] = cells[_NUMBERS].where(is_same_setting)
    return cells.assign(difference=cells["value"] - cells["published"])


def agreement(cells: pd.DataFrame) -> pd.DataFrame:
    """Count the outcomes in each published column of a dataset, from rows of :func:`compare`.

    `kendall_tau` compares the published and the run's order of the compared methods; NaN for fewer
    than two.
    """
    keys = [*COLUMN, "dataset"]
    rows = []
    for key, column in cells[~cells["variant"]].groupby(keys, sort=False):
        compared = column[column["outcome"].isin(COMPARED)]
        counts = compared["outcome"].value_counts().reindex(COMPARED, fill_value=0)
        row = dict(zip(keys, key, strict=True)) | {"compared": len(compared)}
        for outcome in (INSIDE, OUTSIDE, NO_INTERVAL):
            row[outcome.replace(" ", "_")] = counts[outcome]
        tau = float(kendall_taus(compared["published"], compared["value"]))
        rows.append({**row, "kendall_tau": tau})
    return pd.DataFrame(rows)


def published_robustness(published: pd.DataFrame) -> pd.DataFrame:
    """Leave each dataset out of the published averages, recomputed from the printed cells.

    Returns:
        Rows of `ranks`: part `without` is :func:`pisoft.statistics.orders.leave_one_out`, part
        `kendall_tau` the τ-b of each order with the order on all datasets.
    """
    parts = []
    for column, cells, _ in averaged_columns(published):
        best = METRICS[column["metric"]].best
        if best is not None:
            keys = {**column, "dataset": AVERAGE}
            averages = leave_one_out(cells, best)
            changes = order_changes(averages).set_index("other")
            first = averages["other"].map(changes["best"].str[0])
            taus = changes["kendall_tau"].rename("value").reset_index()
            parts += [averages.assign(part="without", best=first, **keys)]
            parts += [taus.assign(part="kendall_tau", **keys)]
    return summary_table("ranks", parts).to_pandas()


def leaky_statistics(study: pd.DataFrame) -> pd.DataFrame:
    """Return Grad-ELLM at the best depth on all samples, as rows of `statistics`."""
    numbers = select(depth_statistics(study), part=LEAKY)
    numbers = numbers.assign(method=numbers["method"].map(LEAKY_METHODS))
    groups = numbers.groupby([*COLUMN, "method"], sort=False)
    sums = groups[["value", "n", "n_failed"]].sum(min_count=len(DATASETS)).reset_index()
    averages = sums.assign(dataset=AVERAGE, value=sums["value"] / len(DATASETS))
    every = pd.concat([numbers, averages.dropna()], ignore_index=True)
    return every[[*_CELL, *_NUMBERS]]


def _with_variants(published: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Add rows of Grad-ELLM for every variant of the run that the column does not print."""
    printed = published.assign(variant=False)
    plain = printed[printed["method"] == "grad_ellm"].assign(variant=True)
    added = [plain.assign(method=name) for name in VARIANTS]
    every = pd.concat([printed, *added], ignore_index=True)
    measured = pd.MultiIndex.from_frame(every[_CELL]).isin(pd.MultiIndex.from_frame(ours[_CELL]))
    every = every[~every["variant"] | measured]
    return every.drop_duplicates(_CELL).reset_index(drop=True)


def _outcomes(
    cells: pd.DataFrame,
    ours: pd.DataFrame,
    other_models: Collection[str],
    other_datasets: Collection[str],
    other_settings: np.ndarray,
) -> np.ndarray:
    """Return the first outcome that applies to each cell."""
    half = 0.5 * 10.0 ** -cells["decimals"]  # what rounding may have changed
    published, low, high = cells["published"], cells["low"], cells["high"]
    outcomes = {
        OTHER_MODEL: cells["model"].isin(list(other_models)),
        OTHER_DATASET: cells["dataset"].isin(list(other_datasets)),
        OTHER_SETTINGS: other_settings,
        NOT_RUN: cells["n"].isna(),
        OTHER_AVERAGE: (cells["dataset"] == AVERAGE) & ~_over_same_datasets(cells, ours),
        NO_VALUE: cells["value"].isna(),
        OTHER_MACHINE: cells["metric"] == SECONDS,
        NO_INTERVAL: low.isna() | high.isna(),
        INSIDE: (low <= published + half) & (published - half <= high),
    }
    return np.select([*outcomes.values()], [*outcomes], default=OUTSIDE)


def _over_same_datasets(cells: pd.DataFrame, ours: pd.DataFrame) -> pd.Series:
    """Return whether the column of each cell has the same datasets in the paper and the run."""
    with_value = ours[ours["value"].notna()]
    printed, measured = (
        rows[rows["dataset"] != AVERAGE].groupby(COLUMN)["dataset"].agg(frozenset)
        for rows in (cells, with_value)
    )
    same = printed == measured.reindex(printed.index)
    return pd.Series(pd.MultiIndex.from_frame(cells[COLUMN]).map(same), index=cells.index)
