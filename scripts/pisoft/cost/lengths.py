"""Lengths of prompts and answers: measured if they exist, otherwise estimated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pisoft.config.datasets import EmbeddedDataset
from pisoft.config.resolved import Config
from pisoft.config.shards import sample_limit, shards
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.scores import is_evaluated
from pisoft.store.cells import read_generations, read_prompts
from pisoft.store.parquet import OK
from pisoft.store.scope import perturbable_positions
from pisoft.store.shards import cell_path, is_complete

MEASURED = "measured"
PROMPTS_MEASURED = "prompts measured, answers of full length"
ESTIMATED = "estimated"

Row = dict[str, Any]

# Tokens of a chat template with a short instruction, before and after the record.
BEFORE, BEHIND = 40, 5


@dataclass(frozen=True)
class SampleLengths:
    """Tokens of one sample."""

    prompt: int
    first: int  # tokens before the first that a perturbation may touch
    perturbable: int
    output: int  # generated
    steps: tuple[int, ...]  # explained
    evaluated: tuple[int, ...]

    @property
    def read(self) -> int:
        """Tokens read at the last explained step."""
        return self.prompt + max(self.steps)


@dataclass(frozen=True)
class Lengths:
    """The samples of one model and dataset in order, without failed ones."""

    samples: tuple[SampleLengths, ...]
    origin: str

    @cached_property
    def _counts(self) -> Counter[SampleLengths]:
        return Counter(self.samples)

    def as_spans(self) -> Lengths:
        """Return the same samples with all explained steps merged into the last."""
        samples = tuple(replace(sample, steps=(max(sample.steps),)) for sample in self.samples)
        return replace(self, samples=samples)

    def total(self, quantity: Callable[[SampleLengths], Any], start: Any = 0) -> Any:
        """Return the sum of a quantity over all samples, plus `start`."""
        return sum((count * quantity(sample) for sample, count in self._counts.items()), start)

    def mean(self, quantity: Callable[[SampleLengths], float]) -> float:
        """Return the mean of a quantity over all samples, 0 without any."""
        return self.total(quantity) / max(1, len(self.samples))


def sample_lengths(config: Config, model: str, dataset: str, results: Path | None) -> Lengths:
    """Return the lengths of a model's prompts and answers on a dataset.

    They are measured if the run's folder has prompts; with None as folder, they are estimated.

    Raises:
        BenchmarkError: there are no prompts yet, and the catalogue lacks the length or number of
            records; or a file cannot be read.
    """
    cell = cell_path(model, dataset, shards(config, model, dataset))
    if results is None or not is_complete(results / "data/prompts" / cell):
        return Lengths(_estimated(config, dataset), ESTIMATED)
    prompts, generations = results / "data/prompts" / cell, results / "data/generations" / cell
    rows, scope = read_prompts(prompts), config.run_file.evaluation.scope
    is_label = config.datasets[dataset].task == "classification"
    origin = MEASURED if is_label else PROMPTS_MEASURED
    answers = [_full_answer(config, dataset)] * len(rows)
    if is_complete(generations):
        answers, origin = read_generations(generations, prompts, rows), MEASURED
    samples = []
    for prompt, answer in zip(rows, answers, strict=True):
        if prompt["status"] == answer["status"] == OK:
            touched = perturbable_positions(prompt, scope)
            length = len(prompt["input_ids"])
            lengths = length, int(touched[0]), len(touched)
            samples.append(_answered(config, *lengths, answer))
    return Lengths(tuple(samples), origin)


def _answered(
    config: Config, prompt: int, first: int, perturbable: int, answer: Row
) -> SampleLengths:
    steps, interval = tuple(answer["steps"]), config.run_file.evaluation.step_interval
    evaluated = tuple(step for step in steps if is_evaluated(step, interval))
    return SampleLengths(prompt, first, perturbable, len(answer["output_ids"]), steps, evaluated)


def _full_answer(config: Config, dataset: str) -> Row:
    """Return an answer of maximal length; a label is one token."""
    generation = config.run_file.generation
    is_label = config.datasets[dataset].task == "classification"
    length = 1 if is_label else generation.max_new_tokens
    steps = range(0, length, generation.step_interval)
    return {"output_ids": [0] * length, "steps": steps, "status": OK}


def _estimated(config: Config, name: str) -> tuple[SampleLengths, ...]:
    """Return as many samples as the dataset may give, of the catalogue's mean length."""
    source, expected = config.datasets[name].source, config.datasets[name].expected
    if expected is None:
        raise BenchmarkError(
            f"dataset '{name}': expected.content_tokens: not set, and there are no prompts yet to "
            "count tokens in; add it to the dataset's catalogue entry"
        )
    records = source.records if isinstance(source, EmbeddedDataset) else expected.records
    limits = [count for count in (sample_limit(config, name), records) if count is not None]
    if not limits:
        raise BenchmarkError(
            f"dataset '{name}': expected.records: not set, but all records are sampled; add it to "
            "the dataset's catalogue entry, or set max_samples"
        )
    content, longest = round(expected.content_tokens), config.run_file.prompts.max_tokens
    if longest is not None:
        content = max(1, min(content, longest - BEFORE - BEHIND))
    prompt = BEFORE + content + BEHIND
    only_record = config.run_file.evaluation.scope in ("content", "user_turn")
    touched = (BEFORE, content) if only_record else (0, prompt)
    return (_answered(config, prompt, *touched, _full_answer(config, name)),) * min(limits)
