"""Does the order of methods depend on whether the model is right? Part of `make summary`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from pisoft.seeds import keyed_generator
from pisoft.statistics.metrics import AUC_METRICS, DECIMALS
from pisoft.statistics.orders import kendall_taus
from pisoft.store.parquet import OK

SPLITS = 10_000
FEWEST = 5  # samples on each side


def by_answer(samples: pd.DataFrame, answers: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Compare the order of methods on samples with right answers with the order on the others.

    A second split takes right and confident answers: the margin is at least the median of the
    dataset's right answers. The null hypothesis is that these answers are spread at random over a
    dataset's samples, like :data:`SPLITS` random splits of the same sizes. The test statistic is
    the variance over methods of the difference between a method's two means.

    Args:
        samples: `soft_samples` of one model: `protocol`, `metric`, `dataset`, `sample_id`,
            `method`, `value`, `status`.
        answers: `dataset`, `sample_id`, `margin`, and `correct`, which is missing if there is no
            right answer.
        seed: of the random splits.

    Returns:
        By `answers` (`right`, `right and confident`), `protocol` and `metric`: `n` of these
        samples and of the `others`, Kendall's τ between the means over both (`tau`), the range of
        95 % of random splits (`low`, `high`), and `p_value`, the share of random splits with at
        least this variance. Splits with fewer than :data:`FEWEST` samples on a side have no row.
    """
    answers = answers.dropna(subset="correct").set_index("sample_id")
    right = answers["correct"].astype(bool)
    medians = answers["margin"].where(right).groupby(answers["dataset"]).transform("median")
    splits = {"right": right, "right and confident": right & (answers["margin"] >= medians)}
    usable = samples[(samples["status"] == OK) & samples["metric"].isin(AUC_METRICS)]
    usable = usable[usable["sample_id"].isin(right.index)]
    rows = [
        {"answers": name, "protocol": protocol, "metric": metric, **numbers}
        for name, chosen in splits.items()
        for (protocol, metric), group in usable.groupby(["protocol", "metric"], sort=False)
        for numbers in _compared(group, chosen, seed)
    ]
    names = ["answers", "protocol", "metric", "n", "others", "tau", "low", "high", "p_value"]
    return pd.DataFrame(rows, columns=names)


def _compared(rows: pd.DataFrame, chosen: pd.Series, seed: int) -> Iterator[dict[str, float]]:
    values = rows.pivot_table(index=["dataset", "sample_id"], columns="method", values="value")
    values = values.dropna()  # only samples with a value of every method
    datasets = values.index.get_level_values("dataset")
    inside = chosen[values.index.get_level_values("sample_id")].to_numpy()
    if min(inside.sum(), (~inside).sum()) < FEWEST:
        return
    rng = keyed_generator("by answer", seed)
    splits = np.empty((1 + SPLITS, len(inside)), dtype=bool)
    splits[0] = inside
    for name in datasets.unique():
        at = np.flatnonzero(datasets == name)
        splits[1:, at] = rng.permuted(np.tile(inside[at], (SPLITS, 1)), axis=1)
    means = [side @ values.to_numpy() / side.sum(axis=1)[:, None] for side in (splits, ~splits)]
    tau, *others = kendall_taus(*means)
    low, high = np.quantile(others, [0.025, 0.975])
    variance, *random = (means[0] - means[1]).var(axis=1).round(DECIMALS)
    yield {
        "n": inside.sum(),
        "others": (~inside).sum(),
        "tau": tau,
        "low": low,
        "high": high,
        "p_value": (1 + np.sum(np.array(random) >= variance)) / (1 + SPLITS),
    }
