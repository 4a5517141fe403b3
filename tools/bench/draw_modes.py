"""Simulating presets and budgets of draws on the pools of draws measured by :mod:`draws`.

A sample's value is its area under the curve over π, without clamping of Soft-NS.

For `sparse`, whole runs are simulated: the steps of `efficient` are kept at the π that a run with
another seed would measure. The mean is the area under the means at each π. Its interval comes from
the completed curves, like in the tables (:meth:`pisoft.statistics.soft_files.Steps.completed`), and
its half-width is the root mean square over runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pisoft.config.evaluation import DrawBudget
from pisoft.faithfulness.budget import first_draws, further_draws, half_width
from pisoft.faithfulness.curves import auc
from pisoft.faithfulness.masks import measured_pi
from pisoft.faithfulness.soft import BASELINES, METRICS
from pisoft.statistics.soft_files import Steps, completed
from pisoft.store.parquet import OK
from run_cells import Pool

INTERVALS = 10_000  # simulated per coverage
BUDGETED_CELLS = 400  # simulated per budget
SPARSE_SEEDS = 200  # for the choice of measured π
SPARSE_INTERVALS = 5  # simulated per seed, for the coverage


@dataclass(frozen=True)
class Mode:
    """One mode of evaluating a cell.

    Attributes:
        name: in the report.
        forwards: per sample, all steps and both metrics.
        values: by metric, every sample's value in each repetition, (R, n).
        variances: by metric, Monte Carlo variance of a sample's value, mean over the samples.
        runs: by metric, values of n samples drawn with replacement, (runs, n), if they depend on
            the other samples of a run; else None.
        cost_aim: forwards for the same interval, relative to paper's.
    """

    name: str
    forwards: float
    values: Mapping[str, np.ndarray]
    variances: Mapping[str, float]
    runs: Mapping[str, np.ndarray] | None = None
    cost_aim: tuple[float, float] = (0.0, 0.1)

    def resampled(self, metric: str) -> np.ndarray:
        """Return the values of n samples drawn with replacement, (runs, n)."""
        if self.runs is not None:
            return self.runs[metric]
        values, rng = self.values[metric], np.random.default_rng(1)
        repetitions, n = values.shape
        samples = rng.integers(n, size=(INTERVALS, n))
        return values[rng.integers(repetitions, size=samples.shape), samples]


@dataclass(frozen=True)
class ReplayedStep:
    """Stand-in for a step evaluation with some of its draws measured."""

    sample_id: int
    grid: Sequence[float]
    measured: Mapping[str, np.ndarray]
    status: str = OK

    def curves(self, metric: str) -> np.ndarray:
        """Return the metric at every π for every draw so far, (P, K)."""
        return self.measured[metric]

    def area(self, metric: str) -> float:
        """Return the area under the mean curve."""
        return float(np.trapezoid(self.measured[metric].mean(axis=1), self.grid))


def step_forwards(grid_size: int, draws: Mapping[str, int], rounds: int = 1) -> int:
    """Return the forwards of one step: its masks, and the clean input once per round.

    Args:
        grid_size: retaining probabilities, P.
        draws: by metric.
        rounds: number of requests for draws.
    """
    return rounds + BASELINES + (1 + grid_size) * sum(draws.values())


def step_weights(sample_of_step: np.ndarray) -> np.ndarray:
    """Return weights that average each sample's steps, (S, n).

    Args:
        sample_of_step: the sample of every step, 0 … n - 1, each at least once, (S,).
    """
    belongs = sample_of_step[:, None] == np.unique(sample_of_step)
    return belongs / belongs.sum(axis=0)


def between_repetitions(values: np.ndarray, repetitions: int) -> float:
    """Return the variance of a sample's value, mean over the samples.

    Args:
        values: (R, n), or more rows derived from R repetitions.
        repetitions: R, at least two.
    """
    return float(values.var(axis=0).mean() * repetitions / (repetitions - 1))


def independent_mode(name: str, pool: Pool, weights: np.ndarray, grid_size: int) -> Mode:
    """Return the mode of K independent draws: their mean has 1 / K of one draw's variance."""
    values, variances = {}, {}
    for metric, areas in pool.areas.items():
        by_sample = np.einsum("rsk,sn->rnk", areas, weights)
        values[metric] = by_sample.mean(axis=2)
        draws = by_sample.transpose(0, 2, 1).reshape(-1, weights.shape[1])  # (R·K, n)
        variances[metric] = between_repetitions(draws, len(draws)) / areas.shape[2]
    return Mode(name, _forwards(pool, weights, grid_size), values, variances)


def latin_mode(name: str, pool: Pool, weights: np.ndarray, grid_size: int) -> Mode:
    """Return the mode of K draws of one Latin hypercube sample."""
    values = {metric: areas.mean(axis=2) @ weights for metric, areas in pool.areas.items()}
    variances = {
        m: between_repetitions(repeated, len(pool.curves[m])) for m, repeated in values.items()
    }
    return Mode(name, _forwards(pool, weights, grid_size), values, variances)


def _forwards(pool: Pool, weights: np.ndarray, grid_size: int) -> float:
    """Return the forwards per sample of all draws of a pool."""
    return step_forwards(grid_size, _draws(pool)) * weights.shape[0] / weights.shape[1]


def _draws(pool: Pool) -> dict[str, int]:
    """Return the draws of a pool, by metric."""
    return {metric: areas.shape[2] for metric, areas in pool.areas.items()}


def replay_budget(
    pool: Pool, budget: DrawBudget, sample_of_step: np.ndarray, chosen: np.ndarray
) -> tuple[list[Any], dict[str, int], int]:
    """Run a budget with draws from a pool in place of the model.

    Args:
        pool: with as many draws as the budget allows.
        budget: stopping rule.
        sample_of_step: (S,).
        chosen: repetition of every step, (S,).

    Returns:
        Replayed steps with the draws taken, their number by metric, and the rounds.
    """
    draws, rounds = first_draws(budget), 0
    steps: list[Any] = []  # in place of step evaluations
    taken: dict[str, int] = {}
    while any(draws.values()):
        rounds += 1
        taken = {metric: draws[metric].stop for metric in METRICS}
        steps = []
        for k, sample in enumerate(sample_of_step.tolist()):
            measured = {m: pool.curves[m][chosen[k], k, :, : taken[m]] for m in METRICS}
            steps.append(ReplayedStep(sample, pool.grid, measured))
        draws = further_draws(budget, steps, draws)
    return steps, taken, rounds


def budget_mode(
    pool: Pool, budget: DrawBudget, sample_of_step: np.ndarray, grid_size: int
) -> tuple[Mode, dict[str, np.ndarray]]:
    """Return the mode of a budget, and the half-widths of its own intervals, by metric (cells,).

    Simulated cells combine the samples' repetitions at random.
    """
    weights, rng = step_weights(sample_of_step), np.random.default_rng(1)
    repetitions = len(pool.curves["ns"])
    values: dict[str, list[np.ndarray]] = {metric: [] for metric in METRICS}
    widths: dict[str, list[float]] = {metric: [] for metric in METRICS}
    forwards = []
    for _ in range(BUDGETED_CELLS):
        chosen = rng.integers(repetitions, size=(weights.shape[1],))[sample_of_step]
        steps, taken, rounds = replay_budget(pool, budget, sample_of_step, chosen)
        forwards.append(step_forwards(grid_size, taken, rounds))
        for metric in METRICS:
            values[metric].append(np.array([s.area(metric) for s in steps]) @ weights)
            widths[metric].append(half_width(steps, metric))
    per_sample = float(np.mean(forwards)) * weights.shape[0] / weights.shape[1]
    cell_areas = {metric: np.array(by_cell) for metric, by_cell in values.items()}
    variances = {m: between_repetitions(by_cell, repetitions) for m, by_cell in cell_areas.items()}
    mode = Mode(f"budget {budget.target_half_width:g}", per_sample, cell_areas, variances)
    return mode, {metric: np.array(by_cell) for metric, by_cell in widths.items()}


def sparse_mode(
    pool: Pool, count: int, sample_of_step: np.ndarray, between: Mapping[str, float]
) -> Mode:
    """Return the mode of a run that measures each step at `count` retaining probabilities.

    Args:
        pool: with the draws of every retaining probability.
        count: retaining probabilities per step, at most P.
        sample_of_step: the sample of every step, 0 … n - 1, each at least once, (S,).
        between: by metric, variance between samples; the rest of the interval's variance belongs
            to the mode.
    """
    rng = np.random.default_rng(1)
    steps_of = [np.flatnonzero(sample_of_step == sample) for sample in np.unique(sample_of_step)]
    n, most = len(steps_of), max(map(len, steps_of))
    values: dict[str, list[np.ndarray]] = {metric: [] for metric in METRICS}
    runs: dict[str, list[np.ndarray]] = {metric: [] for metric in METRICS}
    for seed in range(SPARSE_SEEDS):
        measured = np.zeros((n, most, len(pool.grid)), dtype=bool)
        for place in np.ndindex(n, most):
            measured[place][measured_pi(len(pool.grid), count, seed, place)] = True
        resamples = rng.integers(n, size=(SPARSE_INTERVALS, n))
        for into, samples in ((values, np.arange(n)), *((runs, drawn) for drawn in resamples)):
            areas = sparse_areas(pool, [steps_of[sample] for sample in samples], measured, rng)
            for metric in METRICS:
                into[metric].append(areas[metric])
    areas = {metric: np.array(by_run) for metric, by_run in values.items()}
    return Mode(
        f"sparse, {count} π per step",
        step_forwards(count, _draws(pool)) * len(sample_of_step) / n,
        areas,
        {m: float(by_run.var(axis=1, ddof=1).mean()) - between[m] for m, by_run in areas.items()},
        {metric: np.array(by_run) for metric, by_run in runs.items()},
        cost_aim=(0.0, 1 / 40),
    )


def sparse_areas(
    pool: Pool, steps_of: Sequence[np.ndarray], measured: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return the areas under the samples' completed curves in one run, by metric, (n,).

    Args:
        pool: with the draws of every retaining probability; samples get a repetition at random.
        steps_of: the steps of each sample.
        measured: whether a step is measured, by sample and retaining probability, (n, steps, P).
        rng: chooses the repetitions.
    """
    sample = np.repeat(np.arange(len(steps_of)), [len(steps) for steps in steps_of])
    index = np.concatenate([np.arange(len(steps)) for steps in steps_of])
    repetition = rng.integers(len(pool.curves["ns"]), size=len(steps_of))[sample]
    at, grid = measured[sample, index], np.array(pool.grid)
    with_original = np.insert(at, 0, True, axis=1)
    steps = Steps(pd.Series(dtype=object), sample, {}, {}, grid, with_original, {}, {})
    areas = {}
    for metric in METRICS:
        curves = pool.curves[metric][repetition, np.concatenate(steps_of)].mean(axis=-1)
        sample_curves = steps.where_measured(np.where(at, curves, np.nan))
        areas[metric] = auc(grid, completed(sample_curves, grid))
    return areas
