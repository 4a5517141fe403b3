"""How far each method is on the way from random scores to the best that is known.

Of a metric: (mean of the method − mean of random scores) / (mean of the best − mean of random
scores), over the samples that have a value for all three; 0 is no better than random scores, 1 is
as good as the best. That is, on records with evidence, the oracle, which knows it; and, if the run
searches, the best of random masks (:mod:`pisoft.statistics.search`), which no single scores need
reach. The scale is not bounded: a model may decide by other tokens than the evidence, and there are
better masks than those that were drawn. Intervals are plain percentiles of the bootstrap, which
resamples both differences together. There is no value where the interval of the best one's
difference to random scores reaches down to 0, as a ratio over nearly nothing says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pisoft.config.slices import ResamplingSlice
from pisoft.config.trust import SEARCH
from pisoft.statistics.controls import ORACLE, control_values
from pisoft.statistics.estimates import CONFIDENCE, FEWEST_FOR_INTERVAL, Samples, estimate
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import Files, Summary, summary_table
from pisoft.statistics.search import MASKS

ENDS = (ORACLE, SEARCH)
CELL = ["protocol", "model", "metric", "end"]
TAIL = (1 - CONFIDENCE) / 2
Settings = ResamplingSlice


def summaries(files: Files, settings: ResamplingSlice) -> dict[str, Summary]:
    """Return one file, from the samples of methods and controls."""
    cells: dict[str, dict[tuple[object, ...], pd.DataFrame]] = {}
    for cell, values in control_values(files, controls=ENDS):
        for end in ENDS:
            if cell["pi"] is None and end in values:
                key = (cell["protocol"] or "", cell["model"], cell["metric"], end)
                cells.setdefault(str(cell["dataset"]), {})[key] = values
    tables = [
        oracle_scale(values, settings.seed, dataset, settings.resamples).assign(dataset=dataset)
        for dataset, values in cells.items()
    ]
    samples = files.rows("soft_samples")
    searched = samples[samples["metric"] == MASKS].dropna(subset="value")
    groups = searched.groupby(["protocol", "model", "dataset"])["value"]
    masks = groups.min().rename("masks").reset_index().assign(end=SEARCH)
    keys = ["protocol", "model", "dataset", "end"]
    merged = (table.merge(masks, on=keys, how="left") for table in tables)
    renamed = (table.replace({"protocol": {"": None}}) for table in merged)
    return {"normalised_scores": summary_table("normalised_scores", renamed)}


def oracle_scale(
    cells: Mapping[tuple[object, ...], pd.DataFrame], seed: int, dataset: str, resamples: int
) -> pd.DataFrame:
    """Return a row per cell, method and control of one dataset.

    Args:
        cells: by :data:`CELL`, a row per sample, a column per method and control; higher is
            better, NaN failed.
        seed: of the run.
        dataset: its name.
        resamples: bootstrap resamples.
    """
    numerators, denominators, failed = {}, {}, {}
    for key, values in cells.items():
        end = key[-1]
        for method in values.columns.drop([CONTROL, end]):
            advantage = values[[method, end]].sub(values[CONTROL], axis="index").dropna()
            column = (*key, method)
            numerators[column], denominators[column] = advantage[method], advantage[end]
            failed[column] = len(values) - len(advantage)
    names = [*CELL, "method"]
    top = pd.concat(numerators, axis="columns", names=names)
    bottom = pd.concat(denominators, axis="columns", names=names)
    failures = pd.Series(failed)
    share, advantage_of_end = (
        estimate({dataset: samples}, seed, resamples)[dataset]
        for samples in (Samples(top, bottom, failures), Samples.of_means(bottom, failures))
    )
    table = share.table()
    lowest = advantage_of_end.replicates.iloc[1:].quantile(TAIL).to_numpy()
    defined = (table["n"] >= FEWEST_FOR_INTERVAL) & (lowest > 0)
    ends = share.replicates.iloc[1:].loc[:, defined.to_numpy()].quantile([TAIL, 1 - TAIL])
    table.loc[~defined, ["value", "low", "high"]] = np.nan
    table.loc[defined, ["low", "high"]] = ends.to_numpy().T
    return table
