"""Normalised scores: random scores are at 0 and the oracle is at 1.

For each metric: (mean of the method − mean of random scores) / (mean of the oracle − mean of random
scores), over the samples with a value for all three. The scale is unbounded, because a model may
rely on tokens other than the evidence. Intervals are bootstrap percentiles, with both differences
resampled together. There is no value if the interval of the oracle's difference to random scores
includes 0, because a denominator near 0 makes the ratio meaningless.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.statistics.controls import ORACLE, sample_values
from pisoft.statistics.estimates import FEWEST_FOR_INTERVAL, estimate
from pisoft.statistics.intervals import CONFIDENCE
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.samples import Samples

CELL = ["protocol", "model", "metric"]
TAIL = (1 - CONFIDENCE) / 2


def summaries(files: Files, settings: ResamplingJob) -> dict[str, Summary]:
    """Return one file, from the samples of methods and controls."""
    datasets: dict[str, dict[tuple[str, ...], pd.DataFrame]] = {}
    clusters = files.clusters()
    for cell, values in sample_values(files):
        key = tuple(str(cell[name] or "") for name in CELL)
        datasets.setdefault(str(cell["dataset"]), {})[key] = values
    tables = [
        normalised(cells, dataset, settings, clusters).assign(dataset=dataset)
        for dataset, cells in datasets.items()
    ]
    return {"normalised_scores": tables}


def normalised(
    cells: Mapping[tuple[str, ...], pd.DataFrame],
    dataset: str,
    settings: ResamplingJob,
    clusters: Mapping[str, str],
) -> pd.DataFrame:
    """Return a row per cell, method and control of one dataset, whose name keys the resamples.

    Cells are samples by methods and controls; higher is better, NaN: failed. `clusters` is by
    sample.
    """
    gains, oracle_gains = {}, {}
    for key, values in cells.items():
        gain = values.drop(columns=CONTROL).sub(values[CONTROL], axis="index")
        oracle = gain.pop(ORACLE)
        gains[key] = gain.where(oracle.notna(), axis="index")
        oracle_gains[key] = gain.notna().apply(oracle.where)
    names = [*CELL, "method"]
    top, bottom = (pd.concat(part, axis="columns", names=names) for part in (gains, oracle_gains))
    failed = pd.concat({key: gain.isna().sum() for key, gain in gains.items()})
    samples = Samples(top, bottom, failed, clusters=clusters), Samples.for_means(bottom, clusters)
    scores, advantage = (estimate({dataset: one}, settings)[dataset] for one in samples)
    table = scores.table()
    lowest = advantage.replicates.iloc[1:].quantile(TAIL).to_numpy()
    defined = (scores.counts["fewest"].to_numpy() >= FEWEST_FOR_INTERVAL) & (lowest > 0)
    ends = scores.replicates.iloc[1:].loc[:, defined].quantile([TAIL, 1 - TAIL])
    table.loc[~defined, ["value", "low", "high"]] = np.nan
    table.loc[defined, ["low", "high"]] = ends.to_numpy().T
    return table.drop(columns=["standard_error", "skewness"])
