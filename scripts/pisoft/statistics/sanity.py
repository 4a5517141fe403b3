"""How much of a method's scores stays when the model's last layers are drawn anew.

Spearman's ρ between the scores of a step's perturbable tokens and those by the same method on the
same model with so many of its last decoder layers drawn anew, for the same target token; mean over
a sample's steps. Near 1, the scores do not depend on what these layers have learnt. A step whose
scores are all equal, either time, has no ρ.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import rankdata

from pisoft.columns import SCHEMAS
from pisoft.config.slices.summaries import SanitySlice
from pisoft.statistics.means import mean_rows
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.scores import StepScores, read_scores

Settings = SanitySlice


def summaries(files: Files, settings: SanitySlice) -> dict[str, Summary]:
    """Return one file, from scores of the model as it is and of it with layers drawn anew."""
    prompts = {path.parts[-2:]: path for path in files["prompts"]}
    scores = {path.parts[-3:]: path for path in files["attributions"]}
    schema = SCHEMAS["sanity"]
    tables = [schema.empty_table()]
    for model, methods in settings.methods.items():
        by_dataset = {}
        for dataset in settings.datasets:
            file = f"{dataset}.parquet"
            columns: dict[tuple[str, int], pd.Series] = {}
            for method, counts in methods.items():
                chosen = [scores[model, name, file] for name in (method, *counts)]
                steps = list(read_scores(prompts[model, file], chosen, settings))
                columns |= {
                    (method, count): similarities(steps, method, name)
                    for name, count in counts.items()
                }
            by_dataset[dataset] = pd.concat(columns, axis="columns", names=["method", "layers"])
        rows = mean_rows(by_dataset, settings.seed, settings.resamples).assign(model=model)
        tables.append(pa.Table.from_pandas(rows[schema.names], schema=schema, preserve_index=False))
    return {"sanity": pa.concat_tables(tables).replace_schema_metadata(None)}


def similarities(steps: Iterable[StepScores], method: str, other: str) -> pd.Series:
    """Return by sample the mean of Spearman's ρ between two methods' scores; NaN without any."""
    found = {}
    for sample_id, sample in groupby(steps, key=lambda step: step.prompt["sample_id"]):
        values = [
            _correlation(step.scores(method), step.scores(other))
            for step in sample
            if {method, other} <= step.raw.keys()
        ]
        known = [value for value in values if np.isfinite(value)]
        found[sample_id] = np.mean(known) if known else np.nan
    return pd.Series(found, dtype=np.float64)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return Spearman's ρ of two score vectors (m,); NaN where all of one are equal."""
    ranks = [rankdata(scores) for scores in (one, other)]
    if not all(np.ptp(own) for own in ranks):
        return np.nan
    return float(np.corrcoef(ranks)[0, 1])
