"""Cells of a finished run: the inputs of their evaluations, and draws with other seeds."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from measuring import bench_parser
from pisoft.config.base import Protocol
from pisoft.config.evaluation import DrawSettings
from pisoft.config.jobs.cells import EvaluateJob
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.faithfulness.cell import evaluations_of_cell
from pisoft.faithfulness.perturbation import Perturber
from pisoft.faithfulness.soft import METRICS, StepEvaluation, measure_draws
from pisoft.models.batching import blocks
from pisoft.models.device import token_budget
from pisoft.models.loading import load_model
from pisoft.models.model import LanguageModel
from pisoft.progress import progress
from pisoft.store.parquet import OK, read_provenance, read_rows


@dataclass(frozen=True)
class Cell:
    """One model, method and dataset of a run, with the inputs of its evaluation."""

    name: str
    settings: EvaluateJob
    model: LanguageModel
    samples: Sequence[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]

    def steps(self, evaluation: DrawSettings, seed: int) -> list[list[StepEvaluation]]:
        """Return the steps of every block of samples, not measured yet."""
        in_blocks = blocks(self.samples, self.settings.block_size)
        return evaluations_of_cell(self.model, in_blocks, evaluation, seed)


@dataclass(frozen=True)
class Pool:
    """Curves of single draws.

    Attributes:
        grid: retaining probabilities, (P,).
        curves: values at every π, by metric, (repetitions R, steps S, P, draws K).
    """

    grid: Sequence[float]
    curves: Mapping[str, np.ndarray]

    @cached_property
    def areas(self) -> dict[str, np.ndarray]:
        """Areas under the curves, by metric, (R, S, K)."""
        return {
            metric: np.trapezoid(curves, self.grid, axis=2)
            for metric, curves in self.curves.items()
        }

    @property
    def finite(self) -> np.ndarray:
        """Return a mask of steps without failed repetitions, (S,)."""
        return np.all(
            [np.isfinite(areas).all(axis=(0, 2)) for areas in self.areas.values()], axis=0
        )

    def on_steps(self, kept: np.ndarray) -> Pool:
        """Return the pool restricted to some steps."""
        return Pool(self.grid, {metric: curves[:, kept] for metric, curves in self.curves.items()})


def run_parser(description: str | None, name: str) -> argparse.ArgumentParser:
    """Return the command line of a bench on a finished run's cells."""
    parser = bench_parser(description, name)
    parser.add_argument("--run", type=Path, default=Path("results/demo"), help="a finished run")
    parser.add_argument("--protocol", choices=get_args(Protocol), default="dynamic")
    for kind in ("models", "datasets", "methods"):
        parser.add_argument(f"--{kind}", nargs="+", help="names; default: the run's first")
    parser.add_argument("--model-folder", type=Path, help="local weights, if the run lacks them")
    parser.add_argument("--samples", type=int, default=20, help="first samples of each dataset")
    return parser


def chosen_files(arguments: argparse.Namespace) -> list[Path]:
    """Return the soft files of the chosen models, methods and datasets.

    Raises:
        BenchmarkError: the run is not finished, or lacks a name.
    """
    root = arguments.run / "data/soft" / arguments.protocol
    return [
        dataset if dataset.is_file() else _first_shard(dataset)
        for model in _chosen(arguments.models, root, "--models")
        for method in _chosen(arguments.methods, model, "--methods")
        for dataset in _chosen(arguments.datasets, method, "--datasets")
    ]


def _chosen(names: Sequence[str] | None, folder: Path, option: str) -> list[Path]:
    """Return a folder's entries with given names, or its first entry."""
    entries = {_name(path): path for path in sorted(folder.glob("[!.]*"))}
    if not entries:
        raise BenchmarkError(
            f"{folder}: holds no results; finish the run first (`make demo` makes results/demo), "
            "or name another one: --run results/NAME (make bench RUN=results/NAME)"
        )
    for name in names or ():
        if name not in entries:
            raise BenchmarkError(f"{option}: unknown name '{name}'" + did_you_mean(name, entries))
    return [entries[name] for name in names or list(entries)[:1]]


def _first_shard(dataset: Path) -> Path:
    """Return a first shard of a dataset; there may be several, for different sample counts."""
    return min(dataset.glob("0-*.parquet"))


def _name(path: Path) -> str:
    return path.name.removesuffix(".parquet")  # a stem would cut `v0.3` at its dot


def read_cell(path: Path, arguments: argparse.Namespace) -> Cell:
    """Read the evaluation inputs of a soft file, for the first samples.

    Raises:
        BenchmarkError: files are unreadable, or from another version of this benchmark.
    """
    model, method, *part = path.relative_to(arguments.run / "data/soft" / arguments.protocol).parts
    raw = read_provenance(path).get("settings", {})
    where = f"{path}: settings in its metadata (run the workflow again if another version made it)"
    settings = validate(EvaluateJob, raw, where)
    prompts = read_rows(arguments.run / Path("data/prompts", model, *part), "prompts")
    generations = read_rows(arguments.run / Path("data/generations", model, *part), "generations")
    attributions = read_rows(
        arguments.run / Path("data/attributions", model, method, *part), "attributions"
    )
    answered = {generation["sample_id"]: generation for generation in generations}
    samples = [
        (
            prompt,
            answered[prompt["sample_id"]],
            [row for row in attributions if row["sample_id"] == prompt["sample_id"]],
        )
        for prompt in prompts[: arguments.samples]
    ]
    folder = arguments.model_folder or arguments.run / "data/models" / model
    if settings.model.repository is None and not folder.is_dir():
        raise BenchmarkError(
            f"model '{model}': its weights are not in {folder}; name their folder: "
            "--model-folder DIR (make bench RUN=results/NAME MODEL_FOLDER=DIR)"
        )
    loaded = load_model(settings.model, folder if settings.model.repository is None else None)
    return Cell(f"{model}, {method}, {_name(path)}", settings, loaded, samples)


def evaluation_of(cell: Cell, sampler: str, draws: int) -> DrawSettings:
    """Return the run's evaluation with another sampler and number of draws, at every π."""
    kept = cell.settings.evaluation.model_dump()
    changed = {"sampler": sampler, "draws": draws, "pi_per_step": None}
    return DrawSettings.model_validate({**kept, **changed})


def measure_pool(cell: Cell, sampler: str, draws: int, repetitions: int) -> Pool:
    """Measure the draws of all steps with several seeds; NaN where a step fails."""
    evaluation = evaluation_of(cell, sampler, draws)
    budget = token_budget(cell.settings.token_budget, cell.model.device)
    perturber = Perturber(cell.model, budget, cell.settings.protocol)
    curves: dict[str, list[list[np.ndarray]]] = {metric: [] for metric in METRICS}
    seeds = range(repetitions)
    for seed in progress(seeds, repetitions, f"{sampler}, {draws} draws", "repetitions"):
        steps = []
        for block in cell.steps(evaluation, seed):
            measure_draws(perturber, block, dict.fromkeys(METRICS, range(draws)))
            steps += block
        for metric in METRICS:
            failed = np.full((len(evaluation.pi_grid), draws), np.nan)
            curves[metric].append([s.curves(metric) if s.status == OK else failed for s in steps])
    return Pool(evaluation.pi_grid, {m: np.array(values) for m, values in curves.items()})
