"""Every job of a run, with the number of tokens that its model reads.

A forward pass is counted as 2 · weights · tokens floating-point operations. This omits attention
over long texts and includes embeddings, 5 % too much on the paper's run and a quarter on tiny
models.

Three costs on a GPU are added separately: float32 in a model of half precision, IFR's element-wise
operations, and start-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean

import numpy as np

from pisoft.attribution import load_method, method_without_models
from pisoft.attribution.base import is_compared
from pisoft.config.cells import MARK, SHUFFLED_LABELS, Cell
from pisoft.config.jobs.cells import ranked_datasets
from pisoft.config.models import TOKEN_BUDGETS, Resources, TrainedModel
from pisoft.config.resolved import Config
from pisoft.config.shards import dataset_of, evaluation_parts, first_sample, parts, sample_range
from pisoft.cost.lengths import Lengths, sample_lengths
from pisoft.cost.sizes import device_bytes, parameters_of, stored_bytes, token_bytes, weight_bytes
from pisoft.cost.tokens import (
    TRAINING_FORWARDS,
    Work,
    attribution_work,
    draw_bounds,
    generation_tokens,
    inspection_tokens,
    proposal_tokens,
    ranking_tokens,
    repetition_work,
    soft_tokens,
)
from pisoft.faithfulness.repetition import is_repeated

START_UP = 1.0  # seconds of a job
START_UP_WITH_MODEL = 6.0  # seconds of a job that imports torch or transformers
READING_SPEED = 1e9  # bytes of weights per second, from disk to the device
QUANTISING_SPEED = 2e7  # weights per second, on two CPU cores; a GPU is faster than the disk
# A GPU's time per operation in float32, where half precision takes 1: an H100 reached 47 TFLOP/s
# without TF32, and 330 (27 tokens a record) to 470 (256) in bfloat16.
FLOAT32_TIME = 8
# Numbers per second that go through the five kernels of a subtraction, 36 bytes each: measured on
# two CPU cores, and on an H100.
ELEMENT_SPEED = {"cpu": 5e8, "cuda": 6e10}
HALF = ("bfloat16", "float16")
# Jobs that load a model, on a GPU if it asks for one.
LOADING_RULES = (
    *("convert_model", "generate", "attribute"),
    *("evaluate_soft", "inspect_inputs", "evaluate_ranking"),
)


@dataclass(frozen=True)
class Job:
    """One job of the workflow."""

    rule: str
    cell: str = ""  # its wildcards as they stand in its paths
    model: str | None = None  # that it loads; None: none
    low: float = 0  # tokens that the model reads at least, and at most: draws may go on until a
    high: float = 0  # mean is certain enough
    start_up: float = START_UP  # seconds before its work begins
    masked_flops: float = 0  # of a masked model beside it
    float32_flops: float = 0  # of all, those that take FLOAT32_TIME
    memory_seconds: float = 0  # of work that is no matrix product


@dataclass(frozen=True)
class Plan:
    """A run's jobs in the order of the data flow, and the quantities that determine their cost."""

    jobs: tuple[Job, ...]  # all of them, up to the evaluation
    lengths: dict[tuple[str, str], Lengths]  # of prompts and answers, by model and dataset
    parameters: dict[str, float]  # number of weights, by model
    memory: dict[str, float]  # bytes that these take on their device
    resources: dict[str, Resources]  # that jobs ask for, by model
    token_bytes: dict[str, tuple[float, float]]  # of a batch on a GPU, without gradients and with
    gradient_methods: tuple[str, ...]

    def flops(self, job: Job, tokens: float) -> float:
        """Return the floating-point operations of a job's model for a number of tokens."""
        return 2 * self.parameters[job.model] * tokens + job.masked_flops if job.model else 0

    def seconds(self, job: Job, rate: float, tokens: float | None = None) -> float:
        """Return the seconds of a job at a rate in FLOP/s, by default at its most tokens."""
        flops = self.flops(job, job.high if tokens is None else tokens)
        flops += (FLOAT32_TIME - 1) * job.float32_flops
        return job.start_up + job.memory_seconds + flops / rate

    def holds_gpu(self, job: Job) -> bool:
        """Return whether a job occupies a GPU."""
        model = self.resources.get(job.model or "")
        return model is not None and model.gpu > 0 and job.rule in LOADING_RULES


def plan_run(config: Config, results: Path | None) -> Plan:
    """Plan a run from the prompts and generations in its folder, or with None from estimates.

    Raises:
        BenchmarkError: a model's number of weights or a dataset's lengths are unknown.
    """
    models = {name: _Model(config, name, results) for name in config.models}
    jobs = [Job("fetch_dataset", name) for name in config.datasets]
    jobs += [Job("sample_dataset", part) for model in models.values() for part in model.parts]
    for model in models.values():
        jobs += model.making_jobs()
    for model in models.values():
        jobs += [
            Job("build_prompts", f"{model.name}/{part}", model.name, start_up=START_UP_WITH_MODEL)
            for part in model.parts
        ]
        jobs += [
            model.job("generate", f"{model.name}/{part}", lengths.total(generation_tokens))
            for part, lengths in model.parts.items()
        ]
    for study in config.studies:
        for cell in config.cells(study):
            jobs += models[cell.model].jobs_of(cell, ranked=study in ("main", "controls"))
    lengths = {
        (name, dataset): lengths
        for name, model in models.items()
        for dataset, lengths in model.lengths.items()
    }
    weights = {name: model.parameters for name, model in models.items()}
    memory = {
        name: device_bytes(weights[name], entry.dtype, entry.quantization)
        for name, entry in config.models.items()
    }
    resources = {name: entry.resources for name, entry in config.models.items()}
    per_token = {
        name: token_bytes(weights[name], layers, entry.dtype)
        for name, entry in config.models.items()
        if entry.resources.gpu and (layers := getattr(entry.source, "layers", None))
    }
    gradients = tuple(
        name
        for name, entry in config.methods.items()
        if entry.file is not None and load_method(entry.file).family == "gradient"
    )
    every = tuple(dict.fromkeys(jobs))
    return Plan(every, lengths, weights, memory, resources, per_token, gradients)


def costs_by_pi(config: Config, results: Path | None, rate: float) -> np.ndarray:
    """Return the seconds of all work on records with 1, 2, …, P retaining probabilities per step.

    Start-up and training are excluded. The number of draws is fixed.
    """
    run_file = config.run_file

    def total(count: int) -> float:
        evaluation = run_file.evaluation.model_copy(update={"pi_per_step": count})
        changed = run_file.model_copy(update={"evaluation": evaluation})
        plan = plan_run(config.model_copy(update={"run_file": changed}), results)
        jobs = [job for job in plan.jobs if job.rule in LOADING_RULES]
        return sum(plan.seconds(job, rate) - job.start_up for job in jobs)

    size = len(run_file.evaluation.pi_grid)
    return np.linspace(total(1), total(size), size)  # tokens are linear in the number


class _Model:
    """A model of the run and the jobs that load it."""

    def __init__(self, config: Config, name: str, results: Path | None) -> None:
        self._config, self.name, self._entry = config, name, config.models[name]
        self._results = results
        self.parameters = parameters_of(name, self._entry.source, results)
        on_gpu = self._entry.resources.gpu and self._entry.device != "cpu"
        self._device = "cuda" if on_gpu else "cpu"
        self._is_half = self._entry.dtype in HALF
        datasets = dict.fromkeys(cell.dataset for cell in config.cells() if cell.model == name)
        self.lengths = {one: sample_lengths(config, name, one, results) for one in datasets}
        self._lengths_of = cache(self._cut_lengths)
        self.parts = self._cut(part for one in self.lengths for part in parts(config, name, one))

    def _cut(self, names: Iterable[str]) -> dict[str, Lengths]:
        return {part: self._lengths_of(part) for part in names}

    def _cut_lengths(self, part: str) -> Lengths:
        """Return the lengths of a part, whose range skips failed samples."""
        lengths = self.lengths[dataset_of(part)]
        return replace(lengths, samples=lengths.samples[slice(*(sample_range(part) or (None,)))])

    def job(
        self, rule: str, cell: str, low: float, high: float | None = None, *, float32: float = 0
    ) -> Job:
        """Return a job that loads the model and reads `low` to `high` tokens; None: exactly `low`.

        `float32` counts the tokens that a model in half precision reads in float32.
        """
        read = stored_bytes(self.parameters, self._entry)
        seconds = self._start_up(read, quantises=not self._entry.is_quantised_once)
        slow = 2 * self.parameters * float32 if self._is_half and self._device == "cuda" else 0
        high = low if high is None else high
        return Job(rule, cell, self.name, low, high, seconds, float32_flops=slow)

    def _start_up(self, read: float, *, quantises: bool) -> float:
        """Return the start-up seconds of a job, given the bytes of weights that it loads."""
        seconds = START_UP_WITH_MODEL + read / READING_SPEED
        if quantises and self._entry.quantization != "none" and self._device == "cpu":
            seconds += self.parameters / QUANTISING_SPEED
        return seconds

    def making_jobs(self) -> Iterator[Job]:
        """Yield the conversion or the training jobs of the model, with the maximum of steps."""
        source = self._entry.source
        if self._entry.is_converted:
            read = weight_bytes(self.parameters, self._entry.dtype)
            seconds = self._start_up(read, quantises=self._entry.is_quantised_once)
            yield Job("convert_model", self.name, self.name, start_up=seconds)
        if not isinstance(source, TrainedModel):
            return
        length = fmean(one.mean(lambda s: s.prompt + s.output) for one in self.lengths.values())
        tokens = length * source.steps * source.batch_size * TRAINING_FORWARDS
        cells = self._config.cells("sanity_checks")
        shuffled = any(cell[2:4] == (self.name, SHUFFLED_LABELS) for cell in cells)
        for variant in ("", MARK + SHUFFLED_LABELS) if shuffled else ("",):
            cell = self.name + variant
            yield Job("train_model", cell, self.name, tokens, tokens, START_UP_WITH_MODEL)

    def jobs_of(self, cell: Cell, *, ranked: bool) -> Iterator[Job]:
        """Yield the jobs of a cell: attribution, evaluation, and ranking if it is `ranked`."""
        run_file, names = self._config.run_file, cell.wildcards
        routed = f"{names['protocol']}{names['operator']}/{self.name}"
        method_parts = self._cut(parts(self._config, self.name, cell.dataset, cell.method))
        if not cell.method:
            for part, lengths in method_parts.items():
                yield self.job("inspect_inputs", f"{routed}/{part}", self._inspected(lengths))
            return
        method = self._config.evaluated_methods[cell.method]
        for part, lengths in method_parts.items():
            attribute = ("attribute", f"{self.name}{names['variant']}/{cell.method}/{part}")
            if not method.needs_model:
                yield Job(*attribute, start_up=START_UP_WITH_MODEL)
            elif method.file is not None:
                spanned = self._config.target(cell.method, cell.dataset) == "span"
                read = lengths.as_spans() if spanned else lengths
                yield self._attribution(attribute[1], cell.method, part, read)
        evaluated = evaluation_parts(self._config, self.name, cell.dataset)
        for part, lengths in self._cut(evaluated).items() if cell.protocol else ():
            grid = run_file.evaluation.pi_per_step or len(run_file.evaluation.pi_grid)
            again = self._evaluated_again(part, lengths, grid)
            low, high = (
                lengths.total(partial(soft_tokens, grid=grid, draws=draws)) + again
                for draws in draw_bounds(run_file.evaluation.draws)
            )
            name = f"{routed}/{cell.method}/{part}"
            yield self.job("evaluate_soft", name, low, high, float32=again)
        has_label = ranked_datasets(self._config).get(cell.dataset)
        if ranked and run_file.ranking is not None and has_label is not None:
            sample_tokens = partial(ranking_tokens, settings=run_file.ranking, has_label=has_label)
            for part, lengths in method_parts.items():
                tokens = lengths.total(sample_tokens)
                job = self.job("evaluate_ranking", f"{self.name}/{cell.method}/{part}", tokens)
                if self._config.counterfactuals_of(cell.dataset) == "masked_model":
                    job = self._with_masked_model(job, lengths.total(proposal_tokens))
                yield job

    def _attribution(self, cell: str, name: str, part: str, lengths: Lengths) -> Job:
        """Return an attribution job; the shortest sample is attributed twice, as a warm-up."""
        entry = self._config.evaluated_methods[name]
        assert entry.file is not None
        budget = self._entry.token_budget or TOKEN_BUDGETS[self._device]
        method, in_float32 = (
            method_without_models(entry.file, entry.options, tokens)
            for tokens in (budget, max(1, budget // 2))
        )
        work = Work()
        if lengths.samples:
            work = attribution_work(min(lengths.samples, key=lambda one: one.read), method)
        work = lengths.total(partial(attribution_work, method=method), work)
        if self._is_half and lengths.samples:
            whole = lengths.total(partial(repetition_work, method=in_float32), Work())
            steps = lengths.total(lambda sample: len(sample.steps))
            again = self._repeated_blocks(part, lengths, is_compared) / steps * whole
            work += replace(again, float32=again.tokens)
        job = self.job("attribute", cell, work.tokens, float32=work.float32)
        seconds = work.elements * self.parameters / ELEMENT_SPEED[self._device]
        job = replace(job, memory_seconds=seconds)
        return self._with_masked_model(job, work.masked) if method.needs_masked_model else job

    def _with_masked_model(self, job: Job, tokens: float) -> Job:
        """Return a job plus the cost of `tokens` tokens of the run's masked model."""
        ((name, masked),) = self._config.masked_models.items()
        weights = parameters_of(name, masked.source, self._results)
        flops = 2 * weights * tokens
        slow = flops if job.float32_flops and masked.dtype not in HALF else 0
        return replace(
            job,
            start_up=job.start_up + weight_bytes(weights, masked.dtype) / READING_SPEED,
            masked_flops=flops,
            float32_flops=job.float32_flops + slow,
        )

    def _evaluated_again(self, part: str, lengths: Lengths, grid: int) -> float:
        """Return the tokens of steps repeated in float32 with one draw, one step in some blocks."""
        if not self._is_half or not lengths.samples:
            return 0
        repeated = self._repeated_blocks(part, lengths, is_repeated)
        whole = lengths.total(partial(soft_tokens, grid=grid, draws=1))
        return whole * repeated / lengths.total(lambda sample: len(sample.evaluated))

    def _repeated_blocks(self, part: str, lengths: Lengths, is_one: Callable[[int], bool]) -> int:
        """Return the number of a part's blocks in which a step is repeated in float32."""
        block = self._config.run_file.block_size
        first, blocks = first_sample(part) // block, math.ceil(len(lengths.samples) / block)
        return sum(map(is_one, range(first, first + blocks)))

    def _inspected(self, lengths: Lengths) -> float:
        operators = self._config.run_file.operators
        assert operators is not None
        grid = len(self._config.run_file.evaluation.pi_grid)
        masks = grid * operators.draws * (1 + len(operators.others))
        return lengths.total(partial(inspection_tokens, masks=masks))
