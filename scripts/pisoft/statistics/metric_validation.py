"""Whether each metric ranks the controls by their faithfulness (diagnosticity).

On records with evidence, the oracle should beat its noisy versions, these random scores, and
random scores the anti-oracle. Parts, of the samples that have a value for all of these:

- A_over_B: share of samples whose value for A is better than for B, ties counting one half. `noisy`
  is the oracle with the middle noise of the ladder.
- ladder: Kendall's τ-a between less noise and a better value, over the oracle and all its noisy
  versions, mean over samples; 1 if every sample's values fall with every step of noise.
- means_in_order: probability that the means over as many resampled samples have the order oracle,
  noisy, random, anti-oracle.
- samples_needed: the smallest number of samples with which that probability reaches 95 %.
- mean: of one control or of random scores, the `method`.

Shares have Wilson's interval, means that by Student's t, both of 95 %; that of τ ends at −1 and 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from pisoft.config.jobs.summaries import MetricValidationJob
from pisoft.seeds import keyed_generator
from pisoft.statistics.controls import KEYS, ORACLE, curve_values, sample_values
from pisoft.statistics.intervals import half_widths
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import Files, Summary

NOISY = "noisy"
CHAIN = [ORACLE, NOISY, CONTROL, "anti-oracle"]
PAIRS = (
    *((ORACLE, other) for other in (NOISY, CONTROL, "position", "uniform", "first-token")),
    (NOISY, CONTROL),
    (CONTROL, "anti-oracle"),
)
ENOUGH = 0.95
RESAMPLES = 1000  # of each number of samples: the standard error at 95 % is 0.7 %
Numbers = tuple[float, float, float]  # value, low, high
Settings = MetricValidationJob


def summaries(files: Files, settings: MetricValidationJob) -> dict[str, Summary]:
    """Return one file, from the samples of controls and of random scores."""
    tables = []
    for cell, values in itertools.chain(sample_values(files), curve_values(files)):
        # "diagnosis" is the name of the random stream: with another one, numbers would change.
        key = (settings.seed, "diagnosis", *(cell[name] for name in (*KEYS, "position")))
        tables.append(validation(values, settings, key).assign(**cell))
    return {"metric_validation": tables}


def validation(
    values: pd.DataFrame, settings: MetricValidationJob, key: Sequence[object]
) -> pd.DataFrame:
    """Return the results of one metric.

    `values` are samples by controls and `random`, higher is better, NaN failed; `key` is that of
    the random numbers.
    """
    values = values.assign(**{NOISY: values[settings.middle]})
    ordered = list(dict.fromkeys((*CHAIN, *settings.ladder)))
    common = values[ordered].dropna()

    def samples_of(*names: str) -> pd.DataFrame:
        """Return the samples with a value; the ordered controls lose none for the others."""
        return (common if {*names} <= {*ordered} else values)[[*names]].dropna()

    rows: list[tuple[str, str, int, float, float, float]] = []
    for better, worse in PAIRS:
        pair = samples_of(better, worse)
        share = _share(pair[better] - pair[worse])
        rows.append((f"{better}_over_{worse}", "", len(pair), *share))
    steps = [np.sign(common[a] - common[b]) for a, b in itertools.combinations(settings.ladder, 2)]
    tau, low, high = np.clip(_mean(sum(steps) / len(steps)), -1, 1)
    in_order, n = _in_order(common[CHAIN].to_numpy(), key), len(common)
    needed = min((size for size, share in in_order.items() if share >= ENOUGH), default=np.nan)
    no_interval = (np.nan, np.nan)
    rows += [
        ("ladder", "", n, tau, low, high),
        ("means_in_order", "", n, in_order.get(n, np.nan), *no_interval),
        ("samples_needed", "", n, needed, *no_interval),
    ]
    trivial = [worse for _, worse in PAIRS if worse not in ordered]
    for method in (*settings.ladder, CONTROL, *trivial, "anti-oracle"):
        scores = samples_of(method)[method]
        rows.append(("mean", method, len(scores), *_mean(scores)))
    made = pd.DataFrame(rows, columns=["part", "method", "n", "value", "low", "high"])
    return made.assign(n_failed=len(values) - made["n"])


def _share(differences: pd.Series) -> Numbers:
    """Return how often they are positive, ties counting one half, with Wilson's interval."""
    if differences.empty:
        return np.nan, np.nan, np.nan
    wins, n = (np.sign(differences) + 1).sum() / 2, len(differences)
    return wins / n, *proportion_confint(wins, n, method="wilson")


def _mean(values: pd.Series) -> Numbers:
    """Return a mean with its interval; of fewer than two values there is none."""
    errors = pd.Series([values.sem(ddof=1)])
    (half_width,) = half_widths(errors, pd.Series([len(values)]))
    return values.mean(), values.mean() - half_width, values.mean() + half_width


def _in_order(values: np.ndarray, key: Sequence[object]) -> dict[int, float]:
    """Return by number of samples how often their means fall along the chain, values (n, 4)."""
    generator = keyed_generator(*key)
    shares = {}
    for size in _sizes(len(values)):
        resampled = generator.integers(len(values), size=(RESAMPLES, size))
        means = np.stack([column[resampled].mean(axis=1) for column in values.T])
        shares[size] = float((np.diff(means, axis=0) < 0).all(axis=0).mean())
    return shares


def _sizes(n: int) -> list[int]:
    """Return 1 to 20, then steps of a fifth, and n itself."""
    sizes = [size for size in range(1, 21) if size < n]
    while sizes and sizes[-1] >= 20 and 1.2 * sizes[-1] < n:
        sizes.append(int(1.2 * sizes[-1]))
    return [*sizes, n] if n else []
