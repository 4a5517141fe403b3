"""Every job of a run, with the tokens that it has a model read.

A forward pass takes 2 · weights · tokens floating-point operations. That leaves out attention over
long texts and counts embeddings: 5 % too much on the paper's run, a quarter on tiny models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pisoft.attribution import method_without_models
from pisoft.config.cells import MARK, SHUFFLED_LABELS, Cell
from pisoft.config.models import TOKEN_BUDGETS, TrainedModel
from pisoft.config.resolved import Config
from pisoft.config.shards import first_place, is_repeated, parts, places
from pisoft.cost.lengths import Lengths, sample_lengths
from pisoft.cost.sizes import parameters_of, weight_bytes
from pisoft.cost.tokens import (
    TRAINING_FORWARDS,
    draw_bounds,
    generation_tokens,
    inspection_tokens,
    ranking_tokens,
    soft_tokens,
)

START_UP = 1.0  # seconds of a job
START_UP_WITH_MODEL = 6.0  # seconds of a job that imports torch or transformers
READING_SPEED = 1e9  # bytes of weights per second, from disk to the device
HALF = ("bfloat16", "float16")
# Jobs that load a model, on a GPU if it asks for one.
LOADING_RULES = ("generate", "attribute", "evaluate_soft", "inspect_inputs", "evaluate_ranking")


@dataclass(frozen=True)
class Job:
    """One job of the workflow.

    Attributes:
        rule: its name.
        cell: its wildcards as they stand in its paths.
        model: that it runs; None: none.
        low: tokens that the model reads, at least; more where draws go on until a mean is known
            well enough.
        high: tokens that it reads at most.
        start_up: seconds before its work begins.
    """

    rule: str
    cell: str = ""
    model: str | None = None
    low: float = 0
    high: float = 0
    start_up: float = START_UP


@dataclass(frozen=True)
class Plan:
    """A run's jobs in the order of the data, and what their costs follow from.

    Attributes:
        jobs: all of them, up to the evaluation.
        lengths: of prompts and answers, by model and dataset.
        parameters: number of weights, by model.
    """

    jobs: tuple[Job, ...]
    lengths: dict[tuple[str, str], Lengths]
    parameters: dict[str, float]

    def flops(self, job: Job, tokens: float) -> float:
        """Return the floating-point operations of a job's model that reads so many tokens."""
        return 2 * self.parameters[job.model] * tokens if job.model else 0


def plan_run(config: Config, results: Path | None) -> Plan:
    """Plan a run.

    Args:
        config: the run.
        results: its folder; lengths are measured in the prompts and generations that lie there.
            None: nothing is measured.

    Raises:
        BenchmarkError: a model's number of weights or a dataset's lengths are not known.
    """
    models = {name: _Model(config, name, results) for name in config.models}
    jobs = [Job("fetch_dataset", name) for name in config.datasets]
    every = dict.fromkeys(part for model in models.values() for part in model.parts)
    jobs += [Job("sample_dataset", part) for part in every]
    for model in models.values():
        jobs += model.training_jobs()
    for model in models.values():
        prompts = (model.job("build_prompts", part) for part in model.parts)
        jobs += [replace(job, start_up=START_UP_WITH_MODEL) for job in prompts]
        jobs += [
            model.job("generate", part, tokens=lengths.total(generation_tokens))
            for part, lengths in model.parts.items()
        ]
    for study in config.studies:
        for cell in config.cells(study):
            jobs += models[cell.model].jobs_of(cell, ranked=study in ("main", "controls"))
    lengths = {key: of for model in models.values() for key, of in model.lengths.items()}
    return Plan(
        tuple(dict.fromkeys(jobs)), lengths, {name: of.parameters for name, of in models.items()}
    )


class _Model:
    """A model of the run, and the jobs that it is loaded for."""

    def __init__(self, config: Config, name: str, results: Path | None) -> None:
        self._config, self.name, self._entry = config, name, config.models[name]
        self.parameters = parameters_of(name, self._entry.source)
        datasets = {cell.dataset: None for cell in config.cells() if cell.model == name}
        self.lengths = {
            (name, dataset): sample_lengths(config, name, dataset, results) for dataset in datasets
        }
        self.parts = {
            part: _lengths_of(self.lengths[name, dataset], part)
            for dataset in datasets
            for part in parts(config, name, dataset)
        }

    def job(
        self, rule: str, *cell: str, tokens: float = 0, most: float | None = None, head: str = ""
    ) -> Job:
        """Return a job that loads the model.

        Args:
            rule: its rule.
            cell: wildcards behind the model's name.
            tokens: that it reads, at least.
            most: that it reads at most; None: as many.
            head: wildcards in front of the model's name.
        """
        seconds = START_UP_WITH_MODEL
        seconds += weight_bytes(self.parameters, self._entry.dtype) / READING_SPEED
        path = head + "/".join((self.name, *cell))
        return Job(rule, path, self.name, tokens, tokens if most is None else most, seconds)

    def training_jobs(self) -> Iterator[Job]:
        """Yield the model's trainings, which take all their steps at most."""
        source = self._entry.source
        if not isinstance(source, TrainedModel):
            return
        means = [
            of.mean(lambda sample: sample.prompt + sample.output) for of in self.lengths.values()
        ]
        tokens = (
            sum(means) / max(1, len(means)) * source.steps * source.batch_size * TRAINING_FORWARDS
        )
        cells = self._config.cells("sanity_checks")
        shuffled = any(cell[2:4] == (self.name, SHUFFLED_LABELS) for cell in cells)
        for variant in ("", MARK + SHUFFLED_LABELS) if shuffled else ("",):
            job = Job("train_model", self.name + variant, self.name, tokens, tokens)
            yield replace(job, start_up=START_UP_WITH_MODEL)

    def jobs_of(self, cell: Cell, *, ranked: bool) -> Iterator[Job]:
        """Yield the jobs of a cell: attribution, evaluation, and ranking if it is `ranked`."""
        evaluation, ranking = self._config.run_file.evaluation, self._config.run_file.ranking
        is_label = self._config.datasets[cell.dataset].task == "classification"
        for part in parts(self._config, self.name, cell.dataset):
            if not cell.method:
                yield self._inspection(cell, part)
                continue
            yield from self._attribution(cell, part)
            if cell.protocol:
                low, high = (
                    self._soft_tokens(part, draws) for draws in draw_bounds(evaluation.draws)
                )
                head = f"{cell.protocol}{cell.wildcards['operator']}/"
                path = (cell.method, part)
                yield self.job("evaluate_soft", *path, tokens=low, most=high, head=head)
            if ranked and ranking is not None and is_label:
                tokens = self.parts[part].total(lambda sample: ranking_tokens(sample, ranking))
                yield self.job("evaluate_ranking", cell.method, part, tokens=tokens)

    def _attribution(self, cell: Cell, part: str) -> Iterator[Job]:
        planned = self._config.evaluated_methods[cell.method]
        if planned.file is None:
            return
        budget = self._entry.token_budget
        device = "cuda" if self._entry.resources.gpu else "cpu"
        method = method_without_models(
            planned.file, planned.options, budget or TOKEN_BUDGETS[device]
        )
        tokens = self.parts[part].total(
            lambda sample: sample.read * method.forwards(sample.prompt, len(sample.steps))
        )
        job = self.job("attribute", cell.method, part, tokens=tokens)
        path = f"{self.name}{cell.wildcards['variant']}/{cell.method}/{part}"
        yield replace(job, cell=path)

    def _soft_tokens(self, part: str, draws: int) -> float:
        """Return the tokens of a soft evaluation, with the steps that half precision repeats."""
        grid = len(self._config.run_file.evaluation.pi_grid)
        lengths = self.parts[part]
        tokens = lengths.total(lambda sample: soft_tokens(sample, grid, draws))
        if self._entry.dtype not in HALF or not lengths.count:
            return tokens
        # One step of some blocks is evaluated in float32, too, with one draw.
        block = self._config.run_file.block_size
        first = first_place(part) // block
        repeated = sum(map(is_repeated, range(first, first + math.ceil(lengths.count / block))))
        whole = lengths.total(lambda sample: soft_tokens(sample, grid, 1))
        return tokens + whole * repeated / lengths.total(lambda sample: len(sample.steps))

    def _inspection(self, cell: Cell, part: str) -> Job:
        """Return the job that looks at perturbed inputs of random tokens."""
        operators = self._config.run_file.operators
        assert operators is not None
        masks = len(self._config.run_file.evaluation.pi_grid) * operators.draws
        masks *= 1 + len(operators.others)
        tokens = self.parts[part].total(lambda sample: inspection_tokens(sample, masks))
        return self.job("inspect_inputs", part, tokens=tokens, head=f"{cell.protocol}/")


def _lengths_of(whole: Lengths, part: str) -> Lengths:
    """Return the lengths of a part's samples: those that failed are not counted in its places."""
    bounds = places(part)
    return whole if bounds is None else whole.between(*bounds)
