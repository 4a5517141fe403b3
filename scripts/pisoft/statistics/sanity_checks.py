"""Similarity of scores after randomising the model or changing the input.

It is Spearman's ρ between the scores of a step's perturbable tokens and scores of the same method

- `layers`: on the same model with that many of its last decoder layers re-initialised,
- `labels`: on the model trained on shuffled labels,
- `input`: on the same model for other samples at the same step, averaged after linear interpolation
  to the same relative positions.

The first two keep the target token. ρ is averaged over the steps of a sample. Near 1, scores do not
depend on what these layers have learnt, on the labels, or on the text. A step with fewer than three
tokens or constant scores in either case has no ρ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import SanityChecksJob
from pisoft.statistics.density import FEWEST, rank_correlations
from pisoft.statistics.estimates import estimate_cells
from pisoft.statistics.metrics import DECIMALS
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.scores import StepScores, read_scores
from pisoft.store.schemas import FILES


def summaries(files: Files, settings: SanityChecksJob) -> dict[str, Summary]:
    """Return one file, from scores on the original and on the randomised models."""
    prompts = {(path.parts[-2], path.stem): path for path in files["prompts"]}
    scores = {FILES["attributions"].cell(path): path for path in files["attributions"]}
    columns: dict[tuple[str, str], dict[tuple[Any, ...], pd.Series]] = {}
    for cell, path in scores.items():
        if cell.variant:
            continue
        model, method, dataset = cell.model, cell.method, cell.dataset
        dataset_columns = columns.setdefault((model, dataset), {})
        steps = list(read_scores(prompts[model, dataset], [path], settings))
        for variant, layers in settings.variants[model].items():
            changed = scores[cell._replace(variant=variant)]
            part = "labels" if layers is None else "layers"
            dataset_columns["rho", variant, method, part, layers or ""] = similarities(
                steps, read_scores(prompts[model, dataset], [changed], settings), method
            )
        dataset_columns["rho", "", method, "input", ""] = input_similarities(steps, method)
    names = ["metric", "variant", "method", "part", "position"]
    cells = {
        cell: pd.concat(correlations, axis="columns", names=names)
        for cell, correlations in columns.items()
    }
    return {"sanity_checks": estimate_cells(cells, settings, files.clusters(), ["model"])}


def similarities(
    steps: Iterable[StepScores], changed: Iterable[StepScores], method: str
) -> pd.Series:
    """Return by sample the mean of Spearman's ρ between a method's scores; NaN without any.

    `steps` are the steps of one model and dataset, `changed` the same on a randomised model.
    """
    correlations = []
    for step, other in zip(steps, changed, strict=True):
        both = method in step.raw and method in other.raw
        rho = _correlation(step.scores(method), other.scores(method)) if both else np.nan
        correlations.append((step.prompt["sample_id"], rho))
    return _sample_means(correlations)


def input_similarities(steps: Sequence[StepScores], method: str) -> pd.Series:
    """Return by sample the mean of Spearman's ρ between its scores and other samples' mean ones."""
    by_step: dict[int, dict[str, np.ndarray]] = {}
    for step in steps:
        if method in step.raw and step.perturbable.size >= FEWEST:
            by_sample = by_step.setdefault(step.step, {})
            by_sample[step.prompt["sample_id"]] = step.scores(method)
    correlations = [(step.prompt["sample_id"], np.nan) for step in steps]
    for by_sample in by_step.values():
        for sample_id, scores in by_sample.items():
            rest = [stretched(by_sample[n], scores.size) for n in by_sample if n != sample_id]
            if rest:
                mean = np.mean(rest, axis=0).round(DECIMALS)
                correlations.append((sample_id, _correlation(scores, mean)))
    return _sample_means(correlations)


def stretched(scores: np.ndarray, size: int) -> np.ndarray:
    """Return scores (m,) linearly interpolated to `size` positions from the first to the last."""
    positions = np.linspace(0, 1, size)
    return np.interp(positions, np.linspace(0, 1, scores.size), scores)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(rank_correlations(one[None], other[None])[0])


def _sample_means(correlations: Iterable[tuple[str, float]]) -> pd.Series:
    """Return by sample the mean of the numbers that are not NaN; NaN without any."""
    rows = pd.DataFrame(correlations, columns=["sample_id", "rho"]).astype({"rho": float})
    return rows.groupby("sample_id", sort=False)["rho"].mean()
