"""The cost of an interval in forwards: draws of a finished run, repeated with many mask seeds.

`make bench RUN=results/…`, or run the script with `--models`, `--datasets`, `--methods`. Prints a
table and writes results/bench/draws.json, a list of {name, value, unit, peer, ratio, aim, met}. It
has its own file because it measures the given run, not the machine.

Compares the preset `paper` (independent masks, 15 draws), the preset `efficient`, the preset
`sparse` with two, three or four retaining probabilities per step, and budgets of draws (Latin
masks, at most 15). Three pools of draws are measured, on the same samples:

* independent masks, 15 draws, a quarter of the repetitions, as independent draws can be regrouped;
* Latin masks, 15 draws, from which :mod:`pisoft.faithfulness.budget` takes draws in turn, as it
  would from the model (bit-identical: they do not depend on the number taken);
* Latin masks, as many draws as `efficient` has.

A sample's value is its area under the curve over π, without clamping of Soft-NS. The interval is
the 95 % t-interval of the mean over the n samples. Its half-width is the root of
(variance between samples + Monte Carlo variance) / n times the quantile. Forwards for the same
interval are (forwards / paper's) · (half-width / paper's)²: with fewer draws the interval is wider
at equal n, and more samples are needed to compensate. Coverage is the share of intervals that
contain the population's mean. The population's values are means over all draws of all pools; each
interval is computed from n samples drawn from it with replacement, each with its value in one
repetition.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import t

from draw_modes import (
    Mode,
    budget_mode,
    independent_mode,
    latin_mode,
    sparse_mode,
    step_forwards,
    step_weights,
)
from measuring import Row, report, row
from pisoft.config.evaluation import PRESETS, DrawBudget
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.budget import CONFIDENCE
from pisoft.faithfulness.soft import METRICS
from pisoft.store.parquet import OK
from pisoft.workflow.commandline import run
from run_cells import Cell, Pool, chosen_files, measure_pool, read_cell, run_parser

PAPER_DRAWS, EFFICIENT_DRAWS = (PRESETS[name]["draws"] for name in ("paper", "efficient"))
SPARSE_COUNTS = (PRESETS["sparse"]["pi_per_step"], 3, 4)  # retaining probabilities per step
COVERAGE_AIM = (0.93, 0.97)
# Counting Latin draws as independent widens a budget's intervals, stopping early narrows them.
BUDGET_COVERAGE_AIM = 0.93


def population(pools: Sequence[Pool], weights: np.ndarray, metric: str) -> np.ndarray:
    """Return every sample's mean over all draws of all pools, (n,)."""
    draws = [pool.areas[metric].transpose(1, 0, 2).reshape(len(weights), -1) for pool in pools]
    return np.concatenate(draws, axis=1).mean(axis=1) @ weights


def interval_half_width(between: float, within: float, n: int) -> float:
    """Return the half-width of the t-interval of a mean over n samples.

    Args:
        between: variance between samples.
        within: Monte Carlo variance of a sample's value.
        n: samples, at least two.
    """
    return float(t.ppf((1 + CONFIDENCE) / 2, n - 1) * np.sqrt((between + within) / n))


def coverage(values: np.ndarray, mean: float) -> float:
    """Return the share of t-intervals of n samples that contain the population's mean.

    Args:
        values: of the samples of each interval, (intervals, n).
        mean: of the population.
    """
    n = values.shape[1]
    half_widths = t.ppf((1 + CONFIDENCE) / 2, n - 1) * values.std(axis=1, ddof=1) / np.sqrt(n)
    return float(np.mean(np.abs(values.mean(axis=1) - mean) <= half_widths))


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
    pools = [pool.on_steps(kept) for pool in pools]
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
        single = paper.variances[metric] * PAPER_DRAWS  # variance of one independent draw
        for draws, pool, variance in (
            (PAPER_DRAWS, latin, spread),
            (EFFICIENT_DRAWS, few, efficient.variances[metric]),
        ):
            title = f"{name}, {metric}: variance of independent ÷ Latin masks, K = {draws}, "
            title += f"{len(pool.areas[metric])} repetitions"
            yield row(title, single / draws, f"Latin: {variance:.3g}", single / draws / variance)


def _interval_rows(
    name: str, paper: Mode, modes: Sequence[Mode], metric: str, truth: np.ndarray
) -> Iterator[Row]:
    """Yield the cost, width and coverage of the modes' intervals."""
    n, between = len(truth), float(truth.var(ddof=1))
    deviation, spread = np.sqrt(paper.variances[metric]), np.sqrt(between)
    title = f"{name}: paper: Monte Carlo standard deviation of a sample"
    yield row(title, deviation, f"between samples: {spread:.3g}", deviation / spread)
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
    logging.getLogger("pisoft.faithfulness").setLevel(logging.WARNING)  # a line per round
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
