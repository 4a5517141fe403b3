"""How much of a method's scores stays when the model knows less, or reads something else.

Spearman's ρ between the scores of a step's perturbable tokens and those by the same method

- `layers`: on the same model with so many of its last decoder layers drawn anew,
- `labels`: on its twin that was trained on shuffled labels,
- `input`: on the same model, of the other samples at the same step. Their scores are read at the
  same relative position, by linear interpolation, and averaged;

the first two for the same target token. Mean over a sample's steps. Near 1, the scores do not
depend on what these layers have learnt, on what the labels have taught, or on what a text says. A
step of fewer than three tokens, or whose scores are all equal, either time, has no ρ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.slices.summaries import SanitySlice
from pisoft.statistics.density import FEWEST, rank_correlations
from pisoft.statistics.means import mean_rows
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.scores import StepScores, read_scores

DECIMALS = 12  # of mean scores: what differs by rounding alone is a tie on any machine
Settings = SanitySlice


def summaries(files: Files, settings: SanitySlice) -> dict[str, Summary]:
    """Return one file, from scores of the model as it is and as it knows less."""
    prompts = {path.parts[-2:]: path for path in files["prompts"]}
    scores = {path.parts[-3:]: path for path in files["attributions"]}
    schema = SCHEMAS["sanity"]
    tables = [schema.empty_table()]
    for model, methods in settings.methods.items():
        by_dataset = {}
        for dataset in settings.datasets:
            file = f"{dataset}.parquet"
            columns: dict[tuple[str, str, int], pd.Series] = {}
            for method, others in methods.items():
                chosen = [scores[model, name, file] for name in (method, *others)]
                steps = list(read_scores(prompts[model, file], chosen, settings))
                for name, count in others.items():
                    check = ("labels", 0) if count is None else ("layers", count)
                    columns[method, *check] = similarities(steps, method, name)
                columns[method, "input", 0] = input_similarities(steps, method)
            names = ["method", "check", "layers"]
            by_dataset[dataset] = pd.concat(columns, axis="columns", names=names)
        rows = mean_rows(by_dataset, settings.seed, settings.resamples).assign(model=model)
        tables.append(pa.Table.from_pandas(rows[schema.names], schema=schema, preserve_index=False))
    return {"sanity": pa.concat_tables(tables).replace_schema_metadata(None)}


def similarities(steps: Iterable[StepScores], method: str, other: str) -> pd.Series:
    """Return by sample the mean of Spearman's ρ between two methods' scores; NaN without any."""
    found: dict[str, list[float]] = {}
    for step in steps:
        own = found.setdefault(step.prompt["sample_id"], [])
        if {method, other} <= step.raw.keys():
            own.append(_correlation(step.scores(method), step.scores(other)))
    return _means(found)


def input_similarities(steps: Sequence[StepScores], method: str) -> pd.Series:
    """Return by sample the mean of Spearman's ρ between its scores and other samples' mean ones.

    Args:
        steps: of one model and dataset.
        method: whose scores.
    """
    by_step: dict[int, dict[str, np.ndarray]] = {}
    for step in steps:
        if method in step.raw and step.perturbable.size >= FEWEST:
            own = by_step.setdefault(step.step, {})
            own[step.prompt["sample_id"]] = step.scores(method)
    found: dict[str, list[float]] = {step.prompt["sample_id"]: [] for step in steps}
    for own in by_step.values():
        for sample_id, scores in own.items():
            others = [stretched(own[other], scores.size) for other in own if other != sample_id]
            if others:
                mean = np.mean(others, axis=0).round(DECIMALS)
                found[sample_id].append(_correlation(scores, mean))
    return _means(found)


def stretched(scores: np.ndarray, size: int) -> np.ndarray:
    """Return scores (m,) read at as many places (size,) from the first to the last, linearly."""
    places = np.linspace(0, 1, size)
    return np.interp(places, np.linspace(0, 1, scores.size), scores)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(rank_correlations(one[None], other[None])[0])


def _means(found: Mapping[str, Sequence[float]]) -> pd.Series:
    """Return by sample the mean of the numbers that there are; NaN without any."""
    means = {name: pd.Series(values, dtype=np.float64).mean() for name, values in found.items()}
    return pd.Series(means, dtype=np.float64)
