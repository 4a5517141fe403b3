"""Validation of each metric by controls of known faithfulness (diagnosticity).

On records with evidence, the oracle should beat its noisy versions, these random scores, and random
scores the anti-oracle. Parts, over the samples with a value for all of them:

- A_over_B: share of samples whose value is better for A than for B; ties count one half. `noisy` is
  the oracle with the middle noise of the ladder.
- ladder: Kendall's τ-a between less noise and a better value, over the oracle and all its noisy
  versions, averaged over samples; 1 if every step of noise worsens every sample.
- means_in_order: probability that the means over n resampled samples have the order oracle, noisy,
  random, anti-oracle.
- samples_needed: the smallest number of samples for which that probability reaches 95 %. Clusters
  are resampled as a whole, so it counts samples in such clusters.
- mean: the mean of one control or of random scores, the `method`.

Shares and τ compare single samples. With `pi_per_step`, these have no measured areas, so both are
omitted.

Intervals of 95 % are Wilson's for shares and Student's t for means, clustered if there are
clusters; that of τ is cut at −1 and 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import MetricValidationJob
from pisoft.seeds import keyed_generator
from pisoft.statistics.controls import KEYS, ORACLE, curve_values, sample_values
from pisoft.statistics.estimates import FEWEST_FOR_INTERVAL
from pisoft.statistics.metrics import AREAS, CONTROL
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.samples import Samples, mean_rows, share_rows

NOISY = "noisy"
CHAIN = [ORACLE, NOISY, CONTROL, "anti-oracle"]
PAIRS = (
    *((ORACLE, other) for other in (NOISY, CONTROL, "position", "uniform", "first-token")),
    (NOISY, CONTROL),
    (CONTROL, "anti-oracle"),
)
LADDER, NEEDED = "ladder", "samples_needed"
ENOUGH = 0.95
RESAMPLES = 1000  # of each number of samples: the standard error at 95 % is 0.7 %


def _over(better: str, worse: str) -> str:
    return f"{better}_over_{worse}"


SAMPLE_PARTS = (LADDER, *(_over(*pair) for pair in PAIRS))
NUMBERS = ["value", "low", "high", "n_clusters"]


def summaries(files: Files, settings: MetricValidationJob) -> dict[str, Summary]:
    """Return one file, from the samples of controls and of random scores."""
    tables, clusters = [], files.clusters()
    for cell, values in itertools.chain(sample_values(files), curve_values(files)):
        # "diagnosis" is the name of the random stream: with another one, numbers would change.
        key = (settings.seed, "diagnosis", *(cell[name] for name in (*KEYS, "position")))
        table = validation(values, settings, key, clusters).assign(**cell)
        if settings.pi_per_step is not None and cell["metric"] in AREAS:
            table = table[~table["part"].isin(SAMPLE_PARTS)]
        tables.append(table)
    return {"metric_validation": tables}


def validation(
    values: pd.DataFrame,
    settings: MetricValidationJob,
    key: Sequence[object],
    clusters: Mapping[str, str],
) -> pd.DataFrame:
    """Return the results of one metric.

    `values` are samples by controls and `random`; higher is better, NaN: failed. `key` is the key
    of the random numbers; `clusters` holds the clusters of dependent samples.
    """
    values = values.assign(**{NOISY: values[settings.middle]})
    ordered = list(dict.fromkeys((*CHAIN, *settings.ladder)))
    common = values[ordered].dropna()

    def samples_of(*names: str) -> pd.DataFrame:
        """Return the samples with a value; other controls cost the ordered ones no samples."""
        return (common if {*names} <= {*ordered} else values)[[*names]].dropna()

    rows = []
    for better, worse in PAIRS:
        pair = samples_of(better, worse)
        wins = (np.sign(pair[better] - pair[worse]) + 1) / 2  # ties count one half
        rows.append(_row(share_rows(wins.to_frame(), clusters), _over(better, worse), n=len(pair)))
    steps = [np.sign(common[a] - common[b]) for a, b in itertools.combinations(settings.ladder, 2)]
    tau = mean_rows((sum(steps) / len(steps)).to_frame(), clusters)
    ends = tau[["low", "high"]].clip(-1, 1)
    in_order, n = _in_order(Samples.for_means(common[CHAIN], clusters), key), len(common)
    needed = min((size for size, share in in_order.items() if share >= ENOUGH), default=np.nan)
    rows += [
        _row(tau.assign(**ends), LADDER, n=n),
        {"part": "means_in_order", "value": in_order.get(n, np.nan), "n": n},
        {"part": NEEDED, "value": needed, "n": n},
    ]
    trivial = [worse for _, worse in PAIRS if worse not in ordered]
    for method in (*settings.ladder, CONTROL, *trivial, "anti-oracle"):
        scores = samples_of(method)
        rows.append(_row(mean_rows(scores, clusters), "mean", method=method, n=len(scores)))
    table = pd.DataFrame(rows).fillna({"method": ""})
    return table.assign(n_failed=len(values) - table["n"])


def _row(numbers: pd.DataFrame, part: str, **keys: Any) -> dict[str, Any]:
    return {"part": part, **numbers[NUMBERS].iloc[0], **keys}


def _in_order(samples: Samples, key: Sequence[object]) -> dict[int, float]:
    """Return how often means decrease along the chain, by number of samples; clusters stay whole.

    A single cluster has no resamples, as all would be equal.
    """
    index, values = samples.cluster_index, samples.numerators.to_numpy()
    n, clusters = len(values), len(np.unique(index))
    if clusters < FEWEST_FOR_INTERVAL:
        return {}
    sums = np.stack([np.bincount(index, column, clusters) for column in values.T])
    counts = np.bincount(index, minlength=clusters)
    generator = keyed_generator(*key)
    shares = {}
    for size in _sizes(clusters):
        resampled = generator.integers(clusters, size=(RESAMPLES, size))
        totals = np.stack([column[resampled].sum(axis=1) for column in sums])
        means = totals / counts[resampled].sum(axis=1)
        shares[math.ceil(size * n / clusters)] = float(
            (np.diff(means, axis=0) < 0).all(axis=0).mean()
        )
    return shares


def _sizes(n: int) -> list[int]:
    """Return 1 to 20, then numbers in steps of 20 %, and n."""
    sizes = [size for size in range(1, 21) if size < n]
    while sizes and sizes[-1] >= 20 and 1.2 * sizes[-1] < n:
        sizes.append(int(1.2 * sizes[-1]))
    return [*sizes, n] if n else []
