"""What an interval costs in forwards: draws of a finished run, repeated with many mask seeds.

`make bench RUN=results/…`, or by itself with `--models`, `--datasets`, `--methods`. Prints a table
and writes results/bench/draws.json, a list of {name, value, unit, peer, ratio, aim, met}: a file of
its own, because it is about the run that is given, not about the machine.

Compared are the preset `paper` (independent masks, 15 draws), the preset `efficient`, the preset
`sparse` with two retaining probabilities per step, three or four, and budgets of draws (Latin
masks, 15 at most). Three pools of draws are measured, on the same samples:

* independent masks, 15 draws, a quarter of the repetitions, as independent draws can be regrouped;
* Latin masks, 15 draws, from which :mod:`pisoft.faithfulness.budget` takes draws in turn, as it
  would ask the model for them (with the same bits: they do not depend on how many are taken);
* Latin masks, as many draws as `efficient` has.

A sample's value is its area under the curve over π, Soft-NS not clamped. The interval is the 95 %
t-interval of the mean over n samples, n the number of samples here. Its half-width is the root of
(variance between samples + Monte Carlo variance) / n times the quantile. Forwards for the same
interval are (forwards / paper's) · (half-width / paper's)²: with fewer draws the interval is wider
at equal n, and as many more samples are read until it is not. Coverage is the share of intervals
that hold the mean of the population, whose values are the means over all draws of all pools; the
intervals are those of n samples drawn from it with replacement, each with the value that one
repetition has given it.

For `sparse`, whole runs are simulated: the steps of `efficient` are kept at the π that a run with
another seed would measure. The mean is the area under the means at each π; its interval is that of
the completed curves, as in the tables (:meth:`pisoft.statistics.soft_files.Steps.completed`), and
its half-width the root mean square over the runs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.stats import t

from measuring import Row, report, row
from pisoft.config.evaluation import PRESETS, DrawBudget
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.budget import CONFIDENCE, first_draws, further_draws, half_width
from pisoft.faithfulness.curves import auc
from pisoft.faithfulness.masks import measured_pi
from pisoft.faithfulness.soft import BASELINES, METRICS
from pisoft.statistics.soft_files import Steps
from pisoft.store.parquet import OK
from pisoft.workflow.commandline import run
from run_cells import Cell, Pool, chosen_files, measure_pool, read_cell, run_parser

PAPER_DRAWS, EFFICIENT_DRAWS = (PRESETS[name]["draws"] for name in ("paper", "efficient"))
SPARSE_COUNTS = (PRESETS["sparse"]["pi_per_step"], 3, 4)  # retaining probabilities per step
COVERAGE_AIM = (0.93, 0.97)
# Counting Latin draws as independent widens a budget's intervals, stopping early narrows them.
BUDGET_COVERAGE_AIM = 0.93
INTERVALS = 10_000  # simulated ones per coverage
BUDGETED_CELLS = 400  # simulated ones per budget
SPARSE_SEEDS = 200  # of the π that are measured
SPARSE_INTERVALS = 5  # simulated ones per seed, for the coverage


@dataclass(frozen=True)
class Mode:
    """One way to evaluate a cell.

    Attributes:
        name: what the report calls it.
        forwards: per sample, all steps and both metrics.
        values: by metric, what repetitions have given every sample, (R, n).
        variances: by metric, Monte Carlo variance of a sample's value, mean over the samples.
        cost_aim: forwards for the same interval, of paper's.
    """

    cost_aim: ClassVar[tuple[float, float]] = (0.0, 0.1)

    name: str
    forwards: float
    values: Mapping[str, np.ndarray]
    variances: Mapping[str, float]

    def resampled(self, metric: str) -> np.ndarray:
        """Return the values of n samples drawn with replacement, (INTERVALS, n)."""
        values, rng = self.values[metric], np.random.default_rng(1)
        repetitions, n = values.shape
        samples = rng.integers(n, size=(INTERVALS, n))
        return values[rng.integers(repetitions, size=samples.shape), samples]


@dataclass(frozen=True)
class SparseMode(Mode):
    """A mode whose values of samples depend on the other samples of their run.

    Attributes:
        runs: by metric, values of n samples drawn with replacement, (runs, n).
    """

    cost_aim: ClassVar[tuple[float, float]] = (0.0, 1 / 40)
    runs: Mapping[str, np.ndarray]

    def resampled(self, metric: str) -> np.ndarray:
        """Return the values of n samples drawn with replacement, (runs, n)."""
        return self.runs[metric]


@dataclass(frozen=True)
class ReplayedStep:
    """Stands for a step evaluation some of whose draws have been measured."""

    sample_id: int
    grid: Sequence[float]
    measured: Mapping[str, np.ndarray]
    status: str = OK

    def curves(self, metric: str) -> np.ndarray:
        """Return the metric at every π by every draw so far, (P, K)."""
        return self.measured[metric]

    def area(self, metric: str) -> float:
        """Return the area under the mean curve."""
        return float(np.trapezoid(self.measured[metric].mean(axis=1), self.grid))


def step_forwards(grid_size: int, draws: Mapping[str, int], rounds: int = 1) -> int:
    """Return the forwards of one step: its masks, and the clean input once in every round.

    Args:
        grid_size: retaining probabilities, P.
        draws: by metric.
        rounds: how often draws are asked for.
    """
    return rounds + BASELINES + (1 + grid_size) * sum(draws.values())


# Estimating -----------------------------------------------------------------------------------


def step_weights(sample_of_step: np.ndarray) -> np.ndarray:
    """Return what turns steps into means over each sample's steps, (S, n).

    Args:
        sample_of_step: the sample of every step, 0 … n - 1, each at least once, (S,).
    """
    belongs = sample_of_step[:, None] == np.unique(sample_of_step)
    return belongs / belongs.sum(axis=0)


def between_repetitions(values: np.ndarray, repetitions: int) -> float:
    """Return the variance of a sample's value, mean over the samples.

    Args:
        values: (R, n), or more lines that are made from R repetitions.
        repetitions: R, two at least.
    """
    return float(values.var(axis=0).mean() * repetitions / (repetitions - 1))


def independent_mode(name: str, pool: Pool, weights: np.ndarray, grid_size: int) -> Mode:
    """Return what K independent draws give: their mean has a K-th of one draw's variance."""
    values, variances = {}, {}
    for metric, areas in pool.areas.items():
        by_sample = np.einsum("rsk,sn->rnk", areas, weights)
        values[metric] = by_sample.mean(axis=2)
        draws = by_sample.transpose(0, 2, 1).reshape(-1, weights.shape[1])  # (R·K, n)
        variances[metric] = between_repetitions(draws, len(draws)) / areas.shape[2]
    return Mode(name, _forwards(pool, weights, grid_size), values, variances)


def latin_mode(name: str, pool: Pool, weights: np.ndarray, grid_size: int) -> Mode:
    """Return what K draws of one Latin hypercube sample give."""
    values = {metric: areas.mean(axis=2) @ weights for metric, areas in pool.areas.items()}
    variances = {
        m: between_repetitions(of_metric, len(pool.curves[m])) for m, of_metric in values.items()
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
    """Let a budget take draws from a pool as it would take them from the model.

    Args:
        pool: with as many draws as the budget allows.
        budget: when to stop.
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
    """Return what a budget gives, and the half-widths of its own intervals, by metric (cells,).

    Simulated cells put together the samples' repetitions at random.
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
    of_cells = {metric: np.array(by_cell) for metric, by_cell in values.items()}
    variances = {m: between_repetitions(by_cell, repetitions) for m, by_cell in of_cells.items()}
    mode = Mode(f"budget {budget.target_half_width:g}", per_sample, of_cells, variances)
    return mode, {metric: np.array(by_cell) for metric, by_cell in widths.items()}


def sparse_mode(
    pool: Pool, count: int, sample_of_step: np.ndarray, between: Mapping[str, float]
) -> SparseMode:
    """Return what a run gives that measures each step at so many retaining probabilities.

    Args:
        pool: with the draws of every retaining probability.
        count: retaining probabilities per step, at most P.
        sample_of_step: the sample of every step, 0 … n - 1, each at least once, (S,).
        between: by metric, variance between samples; the rest of the interval's variance is the
            mode's.
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
    of_runs = {metric: np.array(by_run) for metric, by_run in values.items()}
    return SparseMode(
        f"sparse, {count} π per step",
        step_forwards(count, _draws(pool)) * len(sample_of_step) / n,
        of_runs,
        {m: float(by_run.var(axis=1, ddof=1).mean()) - between[m] for m, by_run in of_runs.items()},
        {metric: np.array(by_run) for metric, by_run in runs.items()},
    )


def sparse_areas(
    pool: Pool, steps_of: Sequence[np.ndarray], measured: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return the areas under the samples' completed curves in one run, by metric, (n,).

    Args:
        pool: with the draws of every retaining probability; samples get a repetition at random.
        steps_of: the steps of the sample at each place.
        measured: whether a step is measured, by place and retaining probability, (n, steps, P).
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
        of_steps = auc(grid, steps.completed(np.where(at, curves, np.nan)))
        areas[metric] = np.bincount(sample, of_steps) / np.bincount(sample)
    return areas


def population(pools: Sequence[Pool], weights: np.ndarray, metric: str) -> np.ndarray:
    """Return every sample's mean over all draws of all pools, (n,)."""
    draws = [pool.areas[metric].transpose(1, 0, 2).reshape(len(weights), -1) for pool in pools]
    return np.concatenate(draws, axis=1).mean(axis=1) @ weights


def interval_half_width(between: float, within: float, n: int) -> float:
    """Return the half-width of the t-interval of a mean over n samples.

    Args:
        between: variance between samples.
        within: Monte Carlo variance of a sample's value.
        n: samples, two at least.
    """
    return float(t.ppf((1 + CONFIDENCE) / 2, n - 1) * np.sqrt((between + within) / n))


def coverage(values: np.ndarray, mean: float) -> float:
    """Return the share of t-intervals of n samples that hold the mean of the population.

    Args:
        values: of the samples of each interval, (intervals, n).
        mean: of the population.
    """
    n = values.shape[1]
    half_widths = t.ppf((1 + CONFIDENCE) / 2, n - 1) * values.std(axis=1, ddof=1) / np.sqrt(n)
    return float(np.mean(np.abs(values.mean(axis=1) - mean) <= half_widths))


# Reporting ------------------------------------------------------------------------------------


def pool_sizes(repetitions: int) -> tuple[tuple[str, int, int], ...]:
    """Return sampler, draws and repetitions of the three pools."""
    return (
        ("iid", PAPER_DRAWS, max(2, repetitions // 4)),
        ("latin", PAPER_DRAWS, repetitions),
        ("latin", EFFICIENT_DRAWS, repetitions),
    )


def measure_cell(cell: Cell, repetitions: int, budgets: Sequence[float]) -> Iterator[Row]:
    """Yield the rows of one cell.

    Raises:
        BenchmarkError: fewer than two samples can be evaluated.
    """
    grid_size = len(cell.settings.evaluation.pi_grid)
    evaluations = [step for block in cell.steps(cell.settings.evaluation, 0) for step in block]
    usable = sum(step.status == OK for step in evaluations)
    sizes = pool_sizes(repetitions)
    expected = usable * sum(
        count * step_forwards(grid_size, dict.fromkeys(METRICS, draws)) for _, draws, count in sizes
    )
    print(f"{cell.name}: {expected} forwards for {usable} steps", file=sys.stderr)
    pools = [measure_pool(cell, *size) for size in sizes]
    kept = np.all([pool.finite for pool in pools], axis=0)
    names = np.array([step.sample_id for step in evaluations])[kept]
    n = len(np.unique(names))
    if n < 2:
        raise BenchmarkError(f"{cell.name}: {n} samples can be evaluated, at least 2 are needed")
    sample_of_step = np.unique(names, return_inverse=True)[1]
    pools = [pool.of_steps(kept) for pool in pools]
    yield from cell_rows(cell.name, pools, sample_of_step, grid_size, budgets)


def cell_rows(
    name: str,
    pools: Sequence[Pool],
    sample_of_step: np.ndarray,
    grid_size: int,
    budgets: Sequence[float],
) -> Iterator[Row]:
    """Yield the rows of one cell from its three pools; see :func:`pool_sizes`."""
    independent, latin, few = pools
    weights = step_weights(sample_of_step)
    paper = independent_mode("paper", independent, weights, grid_size)
    efficient = latin_mode("efficient", few, weights, grid_size)
    budgeted = [
        budget_mode(
            latin, DrawBudget(target_half_width=goal, max=PAPER_DRAWS), sample_of_step, grid_size
        )
        for goal in budgets
    ]
    truths = {metric: population(pools, weights, metric) for metric in METRICS}
    between = {metric: float(truth.var(ddof=1)) for metric, truth in truths.items()}
    sparse = [
        sparse_mode(few, count, sample_of_step, between)
        for count in SPARSE_COUNTS
        if count <= grid_size
    ]
    modes = [efficient, *sparse, *(mode for mode, _ in budgeted)]
    for mode in modes:
        title, peer = f"{name}: {mode.name}: forwards per sample", f"paper: {paper.forwards:.0f}"
        yield row(title, mode.forwards, peer, mode.forwards / paper.forwards)
    for metric in METRICS:
        truth = truths[metric]
        yield from _interval_rows(f"{name}, {metric}", paper, modes, metric, truth)
        for mode, widths in budgeted:
            errors = np.abs(mode.values[metric].mean(axis=1) - truth.mean())
            title = f"{name}, {metric}: {mode.name}: its Monte Carlo interval"
            yield _coverage_row(
                title, float(np.mean(errors <= widths[metric])), BUDGET_COVERAGE_AIM
            )
        spread = latin_mode("latin", latin, weights, grid_size).variances[metric]
        one = paper.variances[metric] * PAPER_DRAWS  # variance of a single independent draw
        for draws, pool, variance in (
            (PAPER_DRAWS, latin, spread),
            (EFFICIENT_DRAWS, few, efficient.variances[metric]),
        ):
            title = f"{name}, {metric}: variance of independent ÷ Latin masks, K = {draws}, "
            title += f"{len(pool.areas[metric])} repetitions"
            yield row(title, one / draws, f"Latin: {variance:.3g}", one / draws / variance)


def _interval_rows(
    name: str, paper: Mode, modes: Sequence[Mode], metric: str, truth: np.ndarray
) -> Iterator[Row]:
    """Yield what the modes' intervals cost, how wide they are, and how often they hold."""
    n, between = len(truth), float(truth.var(ddof=1))
    deviation, of_samples = np.sqrt(paper.variances[metric]), np.sqrt(between)
    title = f"{name}: paper: Monte Carlo standard deviation of a sample"
    yield row(title, deviation, f"between samples: {of_samples:.3g}", deviation / of_samples)
    widest = interval_half_width(between, paper.variances[metric], n)
    for mode in modes:
        wide = interval_half_width(between, mode.variances[metric], n)
        cost = mode.forwards / paper.forwards * (wide / widest) ** 2
        title = f"{name}: {mode.name}: half-width, {n} samples"
        yield row(title, wide, f"paper: {widest:.3g}", wide / widest)
        title = f"{name}: {mode.name}: forwards for the same interval, per sample of paper's"
        peer = f"paper: {paper.forwards:.0f}"
        yield row(title, cost * paper.forwards, peer, cost, aim=mode.cost_aim)
    for mode in (paper, *modes):
        share = coverage(mode.resampled(metric), float(truth.mean()))
        yield _coverage_row(f"{name}: {mode.name}: interval of the mean", share, COVERAGE_AIM)


def _coverage_row(name: str, share: float, aim: Any) -> Row:
    return row(f"{name}, coverage", share, f"nominal: {CONFIDENCE}", share, aim=aim)


def main(arguments: argparse.Namespace) -> None:
    """Measure, print and write."""
    if arguments.repetitions < 2:
        raise BenchmarkError(f"--repetitions {arguments.repetitions}: allowed are 2 or more")
    if arguments.model_folder and len(arguments.models or ()) > 1:
        raise BenchmarkError("--model-folder: allowed with one model only; run the bench for each")
    logging.getLogger("pisoft.faithfulness").setLevel(logging.WARNING)  # a line for every round
    rows: list[Row] = []
    for path in chosen_files(arguments):
        cell = read_cell(path, arguments)
        rows += measure_cell(cell, arguments.repetitions, arguments.half_widths)
    report(rows, arguments.output)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = run_parser(__doc__, "draws")
    parser.add_argument("--repetitions", type=int, default=20, help="seeds of Latin masks")
    parser.add_argument(
        "--half-widths", type=float, nargs="+", default=(0.01, 0.005), help="targets of budgets"
    )
    return parser


if __name__ == "__main__":
    run(main, parser())
