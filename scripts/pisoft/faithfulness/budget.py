"""The number of draws of a cell: fixed, or enough to meet a target precision.

A cell is one method on one model, dataset and protocol. With a budget, all its steps get further
draws until the Monte Carlo error of the mean area under the curve meets the target, separately for
each metric. Every shard must meet the target, so the mean over S shards is about √S times as
precise. The Monte Carlo error is the distance to the mean that infinitely many draws of the same
samples would give. It excludes sampling error, which no number of draws reduces.

Stopping once the error looks small enough favours underestimates of it, so intervals of few samples
cover somewhat less than 95 %; `tools/bench/draws.py` measures the coverage.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from pisoft.config.evaluation import DrawBudget
from pisoft.faithfulness.curves import area_variance
from pisoft.faithfulness.repetition import FIRST_DRAWS
from pisoft.faithfulness.soft import METRICS, Draws, StepEvaluation
from pisoft.store.parquet import OK

CONFIDENCE = 0.95
NO_DRAWS: Draws = dict.fromkeys(METRICS, range(0))

logger = logging.getLogger(__name__)


def first_draws(draws: int | DrawBudget) -> Draws:
    """Return the draws to begin with: all of a fixed number, or the first of a budget."""
    count = FIRST_DRAWS if isinstance(draws, DrawBudget) else draws
    return dict.fromkeys(METRICS, range(count))


def further_draws(draws: int | DrawBudget, steps: Sequence[StepEvaluation], done: Draws) -> Draws:
    """Return the draws to add, by metric; none if their number is fixed or the target is met.

    The half-width of the interval shrinks with the square root of the number of draws. The number
    that reaches the target is extrapolated from the draws so far.

    Args:
        steps: all steps of the cell, with the draws measured so far.
        done: the draws measured last, by metric.
    """
    if not isinstance(draws, DrawBudget):
        return NO_DRAWS
    further = {}
    for metric in METRICS:
        measured = done[metric].stop
        reached = half_width(steps, metric)
        needed = measured * (reached / draws.target_half_width) ** 2
        total = max(measured, int(np.ceil(min(needed, draws.max))))
        further[metric] = range(measured, total)
        logger.info("%s: half-width %.2g with %d draws", metric, reached, measured)
    return further


def half_width(steps: Sequence[StepEvaluation], metric: str) -> float:
    """Return the half-width of the 95 % Monte Carlo interval of the mean area under the curve.

    The value of a sample is the mean over its steps, which have at least one draw. Failed ones are
    left out; 0 if none is left. The metric is `ns` (not clamped) or `nc`.
    """
    from scipy.stats import t  # takes half a second, which a job without a budget saves

    variances: dict[str, list[float]] = {}  # by sample
    freedom = 0
    for step in steps:
        if step.status == OK and np.isfinite(curves := step.curves(metric)).all():
            variance, step_freedom = area_variance(curves, np.asarray(step.grid))
            variances.setdefault(step.sample_id, []).append(float(variance))
            freedom += step_freedom
    if not variances:
        return 0.0
    by_sample = [sum(parts) / len(parts) ** 2 for parts in variances.values()]
    error = np.sqrt(np.sum(by_sample)) / len(by_sample)
    return float(t.ppf((1 + CONFIDENCE) / 2, freedom) * error)
