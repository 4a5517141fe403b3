"""What a method's scores gain over the permutation baseline: themselves, shuffled over the tokens.

π-Soft gives all scores the same mean, but not the same shape: few high scores make other masks
than many middling ones. Permuted scores have the method's shape and none of its choice of tokens.
Of one sample, the gain is the method's value less the mean over its permutations. Rows are means
over samples of the value of the `method`, of its scores `permuted`, and of the `gain`, which is
tested against 0; all three are over the samples that have a gain.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.slices import TwinsSlice
from pisoft.statistics.estimates import Samples, estimate_and_test_rows, sample_matrix
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.results import results_table

METRICS = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "soft_nc")
KEYS = ["metric", "method"]
GAIN = "gain"
Settings = TwinsSlice


def summaries(files: Files, settings: TwinsSlice) -> dict[str, Summary]:
    """Return one file, from the samples of methods and of their permuted scores."""
    samples = files.rows("soft_samples")
    samples = samples[samples["metric"].isin(METRICS)]
    tables = [
        gains(rows, settings.twins, settings.seed, settings.resamples).assign(
            protocol=protocol, model=model
        )
        for (protocol, model), rows in samples.groupby(["protocol", "model"], sort=False)
        if set(rows["method"]) & set(settings.twins)
    ]
    return {"permutation_baseline": results_table("permutation_baseline", tables)}


def gains(
    samples: pd.DataFrame, twins: Mapping[str, str], seed: int, resamples: int
) -> pd.DataFrame:
    """Return the rows of one protocol and model, without these two keys.

    Args:
        samples: `soft_samples` rows of methods and of their permuted scores.
        twins: the method of each name of permuted scores.
        seed: of the run.
        resamples: bootstrap resamples, and sign flips of a test.
    """
    datasets = {
        str(name): _of_dataset(rows, twins)
        for name, rows in samples.groupby("dataset", sort=False)
        if rows["method"].isin(list(twins)).any()
    }
    tested = {name: parts.of_parts([GAIN]) for name, parts in datasets.items()}
    return estimate_and_test_rows(datasets, tested, seed, resamples, ["metric"])


def _of_dataset(samples: pd.DataFrame, twins: Mapping[str, str]) -> Samples:
    """Return the samples of every metric, method and part."""
    rows = samples[samples["method"].isin(list(twins))]
    rows = rows.assign(method=rows["method"].map(twins))
    # A sample that failed with one of the permutations has no mean over them.
    groups = rows.groupby(["sample_id", *KEYS])["value"]
    permuted = groups.mean().where(groups.count() == groups.size()).unstack(KEYS)
    method = sample_matrix(samples, KEYS).reindex_like(permuted)
    gain = method - permuted
    both = gain.notna()
    parts = {"method": method.where(both), "permuted": permuted.where(both), GAIN: gain}
    return Samples.of_means(pd.concat(parts, axis="columns", names=["part"]))
