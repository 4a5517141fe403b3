"""From raw scores of one step to scores in [0, 1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pisoft.config.base import Normalisation
from pisoft.config.evaluation import ScoreSettings
from pisoft.store.parquet import OK

CONSTANT_SCORE = 0.5


def is_evaluated(step: int, step_interval: int | None) -> bool:
    """Return whether an explained step is evaluated, with `evaluation.step_interval`."""
    return step % (step_interval or 1) == 0


def evaluated(
    attributions: Sequence[Mapping[str, Any]], settings: ScoreSettings
) -> list[Mapping[str, Any]]:
    """Return the rows of a sample's `attributions` to evaluate, with the scores to evaluate.

    Aggregated scores are the mean over all rows, evaluated or not.
    """
    rows = aggregated(attributions) if settings.step_scores == "aggregated" else attributions
    return [row for row in rows if is_evaluated(row["step"], settings.step_interval)]


def aggregated(attributions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a sample's rows of `attributions` with one heatmap: the mean of their raw scores.

    The paper aggregates "the generated attribution scores [...] to obtain the final heatmap"
    (app:implementation) without further detail. Here it is the mean of raw scores over explained
    steps, before normalisation, so steps with large scores weigh more. If a step failed, there is
    no heatmap, and every row has that step's status.
    """
    failed = [row["status"] for row in attributions if row["status"] != OK]
    if failed:
        return [{**row, "raw_scores": None, "status": failed[0]} for row in attributions]
    mean = np.mean([row["raw_scores"] for row in attributions], axis=0, dtype=np.float64)
    return [{**row, "raw_scores": mean} for row in attributions]


def normalise(raw: np.ndarray, how: Normalisation) -> np.ndarray:
    """Return scores in [0, 1] for the raw scores (m,) of the perturbable tokens of one step.

    * ``minmax``: (a - min) / (max - min).
    * ``rank``: average ranks, the lowest at 0 and the highest at 1 if they are not tied.
    * ``max``: a / max(a), negative raw scores counted as 0.

    Scores without an order (all equal; for ``max``: none positive) become 0.5.

    Raises:
        ValueError: empty input or a raw score that is not finite.
    """
    raw = np.asarray(raw, dtype=np.float64)
    if raw.size == 0 or not np.isfinite(raw).all():
        raise ValueError("raw scores must be finite and at least one")
    if raw.min() == raw.max() or (how == "max" and raw.max() <= 0):
        return np.full(raw.shape, CONSTANT_SCORE)
    if how == "minmax":
        # Brought near 1 by a power of two, which is exact, so that the span of scores as large or
        # as small as floats can be neither overflows nor vanishes.
        scaled = np.ldexp(raw, 1 - int(np.frexp(np.abs(raw).max())[1]))
        span = scaled.max() - scaled.min()
        return np.clip((scaled - scaled.min()) / span, 0.0, 1.0)
    if how == "rank":
        from scipy.stats import rankdata  # takes half a second, which other jobs save

        return (rankdata(raw) - 1) / (raw.size - 1)
    return np.clip(raw / raw.max(), 0.0, 1.0)
