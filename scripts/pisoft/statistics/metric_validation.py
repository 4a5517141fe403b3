"""Whether each metric puts scores whose faithfulness is known into their order (diagnosticity).

On records with known evidence, the oracle should beat its noisy versions, these random scores, and
random scores the anti-oracle. Of the samples that have a value for all of these:

- A_over_B: share of samples whose value for A is better than for B, ties counting one half. `noisy`
  is the oracle with the middle noise of the ladder.
- ladder: Kendall's τ-a between less noise and a better value, over the oracle and all its noisy
  versions, mean over samples; 1 if every sample's values fall with every step of noise.
- means_in_order: probability that the means over as many samples, drawn anew, have the order
  oracle, noisy, random, anti-oracle.
- samples_needed: the smallest number of samples with which that probability reaches 95 %.
- mean: the metric's mean for one of them (`method`).

Shares have Wilson's interval, means that by Student's t, both of 95 %; that of τ ends at −1 and 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from statsmodels.stats.proportion import proportion_confint

from pisoft.columns import SCHEMAS
from pisoft.config.slices import DiagnosisSlice
from pisoft.keyed import keyed_generator
from pisoft.statistics.controls import control_values
from pisoft.statistics.intervals import half_widths
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import Files, Summary

NOISY = "noisy"
CHAIN = ("oracle", NOISY, CONTROL, "anti-oracle")
PAIRS = (
    *(("oracle", other) for other in (NOISY, CONTROL, "position", "uniform", "first-token")),
    (NOISY, CONTROL),
    (CONTROL, "anti-oracle"),
)
SURE = 0.95
RESAMPLES = 1000  # of each number of samples; half a percent of 95 is told apart
Settings = DiagnosisSlice


def summaries(files: Files, settings: DiagnosisSlice) -> dict[str, Summary]:
    """Return one file, from the samples of controls and of random scores."""
    rows: list[dict[str, Any]] = []
    for cell, values in control_values(files):
        rows += [{**cell, **row} for row in diagnosis(values, settings, tuple(cell.values()))]
    schema = SCHEMAS["metric_validation"]
    frame = pd.DataFrame(rows, columns=schema.names)
    return {"metric_validation": pa.Table.from_pandas(frame, schema=schema, preserve_index=False)}


def diagnosis(
    values: pd.DataFrame, settings: DiagnosisSlice, key: Sequence[object]
) -> Iterator[dict[str, Any]]:
    """Yield `diagnosis` rows of one metric, without what says which.

    Args:
        values: a row per sample, a column per control and `random`; higher is better, NaN failed.
        settings: names on the ladder of noise.
        key: of the samples that are drawn anew.
    """
    named = values.assign(**{NOISY: values[settings.middle]})
    ordered = list(dict.fromkeys((*CHAIN, *settings.ladder)))
    common = named[ordered].dropna()

    def row(
        statistic: str, n: int, value: float, low: float = np.nan, high: float = np.nan
    ) -> dict[str, Any]:
        numbers = {"value": value, "low": low, "high": high, "n": n, "n_failed": len(values) - n}
        return {"statistic": statistic, "method": None, **numbers}

    for better, worse in PAIRS:
        # Uniform scores have no value in some metrics; the others do not lose a sample for it.
        pair = (common if {better, worse} <= set(ordered) else named)[[better, worse]].dropna()
        yield row(f"{better}_over_{worse}", len(pair), *_share(pair[better], pair[worse]))
    steps = [np.sign(common[a] - common[b]) for a, b in itertools.combinations(settings.ladder, 2)]
    yield row("ladder", len(common), *np.clip(_mean(sum(steps) / len(steps)), -1, 1))
    in_order = _in_order(common[list(CHAIN)].to_numpy(), (settings.seed, "metric_validation", *key))
    reached = [n for n, share in in_order.items() if share >= SURE]
    yield row("means_in_order", len(common), in_order.get(len(common), np.nan))
    yield row("samples_needed", len(common), min(reached, default=np.nan))
    not_ordered = [worse for _, worse in PAIRS if worse not in ordered]
    for method in dict.fromkeys((*settings.ladder, CONTROL, *not_ordered, *CHAIN)):
        if method != NOISY:
            of_method = (common if method in ordered else named)[method].dropna()
            yield {**row("mean", len(of_method), *_mean(of_method)), "method": method}


def _share(better: pd.Series, worse: pd.Series) -> tuple[float, float, float]:
    """Return how often one is better, ties counting one half, with Wilson's interval."""
    if better.empty:
        return np.nan, np.nan, np.nan
    wins = float((better > worse).sum() + (better == worse).sum() / 2)
    return wins / len(better), *proportion_confint(wins, len(better), method="wilson")


def _mean(values: pd.Series) -> tuple[float, float, float]:
    """Return a mean with its interval; of fewer than two values there is none."""
    errors = pd.Series([values.sem(ddof=1)])
    (half_width,) = half_widths(errors, pd.Series([len(values)]))
    return values.mean(), values.mean() - half_width, values.mean() + half_width


def _in_order(values: np.ndarray, key: Sequence[object]) -> dict[int, float]:
    """Return by number of samples how often the means of so many fall along the chain.

    Args:
        values: of the chain, (n, 4).
        key: of the samples that are drawn, with replacement.
    """
    generator = keyed_generator(*key)
    shares = {}
    for size in _sizes(len(values)):
        drawn = generator.integers(len(values), size=(RESAMPLES, size))
        means = np.stack([values[:, place][drawn].mean(axis=1) for place in range(len(CHAIN))])
        shares[size] = float((np.diff(means, axis=0) < 0).all(axis=0).mean())
    return shares


def _sizes(n: int) -> list[int]:
    """Return 1 to 20, then steps of a fifth, and n itself."""
    sizes = [size for size in range(1, 21) if size < n]
    while sizes and sizes[-1] >= 20 and 1.2 * sizes[-1] < n:
        sizes.append(int(1.2 * sizes[-1]))
    return [*sizes, n] if n else []
