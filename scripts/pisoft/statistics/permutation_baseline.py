"""The gain of a method over its permutation baseline: its own scores, shuffled over the tokens.

π-Soft gives all scores the same mean, but not the same shape: few high scores lead to other masks
than many middling ones. Permuted scores keep the shape of a method's scores but not its choice of
tokens. The gain of a sample is the method's value minus the mean over its permutations. Parts are
means over the samples with a gain: the `method`, its `permuted` scores, and the `gain`, tested
against 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pisoft.config.jobs.summaries import PermutedJob
from pisoft.statistics.estimates import estimate_cells
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.samples import sample_matrix

METRICS = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "soft_nc")
KEYS = ["metric", "method"]
GAIN = "gain"


def summaries(files: Files, settings: PermutedJob) -> dict[str, Summary]:
    """Return one file, from the samples of methods and of their permuted scores."""
    samples = files.rows("soft_samples")
    samples = samples[samples["metric"].isin(METRICS)]
    cells = {
        cell: gains(rows, settings.permuted)
        for cell, rows in samples.groupby(["protocol", "model", "dataset"], sort=False)
        if rows["method"].isin(list(settings.permuted)).any()
    }
    rows = estimate_cells(cells, settings, files.clusters(), tested=[GAIN])
    return {"permutation_baseline": rows}


def gains(samples: pd.DataFrame, permuted: Mapping[str, str]) -> pd.DataFrame:
    """Return the samples of every metric, method and part of one protocol, model and dataset.

    `permuted` maps each permutation to the method whose scores it shuffles.
    """
    rows = samples[samples["method"].isin(list(permuted))]
    # A sample that one of the permutations failed on has no mean over them.
    groups = rows.groupby(["sample_id", "metric", rows["method"].map(permuted)])["value"]
    baseline = groups.mean().where(groups.count() == groups.size()).unstack(KEYS)
    plain = sample_matrix(samples, KEYS).reindex_like(baseline)
    gain = plain - baseline
    parts = {"method": plain, "permuted": baseline, GAIN: gain}
    common = {name: values.where(gain.notna()) for name, values in parts.items()}
    return pd.concat(common, axis="columns", names=["part"])
