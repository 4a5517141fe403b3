"""How long prompts and answers are: measured where they exist, estimated where not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pisoft.config.base import Scope
from pisoft.config.datasets import EmbeddedDataset
from pisoft.config.resolved import Config
from pisoft.config.shards import sample_limit, shards
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.scope import perturbable_positions
from pisoft.store.cells import read_generations, read_prompts
from pisoft.store.parquet import OK
from pisoft.store.shards import cell_path, is_complete

MEASURED = "measured"
PROMPTS_MEASURED = "prompts measured, answers of full length"
ESTIMATED = "estimated"

# Tokens of a chat template with a short instruction, before and behind the record.
BEFORE, BEHIND = 40, 5


@dataclass(frozen=True)
class SampleLengths:
    """Tokens of one sample, or of `count` samples that are planned alike."""

    count: int
    prompt: int
    first: int  # tokens before the first that a perturbation may touch
    perturbable: int
    output: int  # generated
    steps: tuple[int, ...]  # explained

    @property
    def read(self) -> int:
        """Tokens that the model has read at the last explained step."""
        return self.prompt + max(self.steps)


@dataclass(frozen=True)
class Lengths:
    """The samples of one model and dataset, those that cannot be evaluated left out."""

    samples: tuple[SampleLengths, ...]
    origin: str

    def total(self, of_sample: Callable[[SampleLengths], float]) -> float:
        """Return the sum of a quantity over all samples."""
        return sum(sample.count * of_sample(sample) for sample in self.samples)

    def mean(self, of_sample: Callable[[SampleLengths], float]) -> float:
        """Return the mean of a quantity over all samples, 0 without any."""
        return self.total(of_sample) / max(1, self.count)

    def between(self, first: int, last: int) -> Lengths:
        """Return the samples at these places, the last one excluded."""
        samples, begin = [], 0
        for sample in self.samples:
            end = begin + sample.count
            count = min(end, last) - max(begin, first)
            if count > 0:
                samples.append(replace(sample, count=count))
            begin = end
        return Lengths(tuple(samples), self.origin)

    @property
    def count(self) -> int:
        """Samples."""
        return sum(sample.count for sample in self.samples)


def sample_lengths(config: Config, model: str, dataset: str, results: Path | None) -> Lengths:
    """Return the lengths of a model's prompts and answers on a dataset.

    Args:
        config: the run.
        model: name of the model.
        dataset: name of the dataset.
        results: the run's folder, in which prompts and generations may lie; None: unused.

    Raises:
        BenchmarkError: there are no prompts yet, and the catalogue does not say how long records
            are or how many there are; or a file cannot be read.
    """
    cell = cell_path(model, dataset, shards(config, model, dataset))
    if results is None or not is_complete(results / "data/prompts" / cell):
        return Lengths((_estimated(config, dataset),), ESTIMATED)
    prompts, generations = results / "data/prompts" / cell, results / "data/generations" / cell
    rows = read_prompts(prompts)
    if is_complete(generations):
        answers = read_generations(generations, prompts, rows)
        pairs = [pair for pair in zip(rows, answers, strict=True) if pair[0]["status"] == OK]
        origin = MEASURED
    else:
        answer = _full_answer(config, dataset)
        pairs = [(row, answer) for row in rows if row["status"] == OK]
        is_label = config.datasets[dataset].task == "classification"
        origin = MEASURED if is_label else PROMPTS_MEASURED
    return Lengths(tuple(_measured(pairs, config.run_file.evaluation.scope)), origin)


def _measured(pairs: Iterable[tuple[Any, Any]], scope: Scope) -> Iterator[SampleLengths]:
    """Yield the lengths of every prompt with a usable answer."""
    for prompt, answer in pairs:
        if answer["status"] == OK:
            touched = perturbable_positions(prompt, scope)
            yield SampleLengths(
                count=1,
                prompt=len(prompt["input_ids"]),
                first=int(touched[0]),
                perturbable=len(touched),
                output=len(answer["output_ids"]),
                steps=tuple(answer["steps"]),
            )


def _full_answer(config: Config, dataset: str) -> dict[str, Any]:
    """Return an answer that is as long as it may be; a label is one token."""
    generation = config.run_file.generation
    is_label = config.datasets[dataset].task == "classification"
    length = 1 if is_label else generation.max_new_tokens
    steps = range(0, length, generation.step_interval)
    return {"output_ids": [0] * length, "steps": steps, "status": OK}


def _estimated(config: Config, name: str) -> SampleLengths:
    """Return samples whose records have the catalogue's mean length."""
    expected = config.datasets[name].expected
    if expected is None:
        raise BenchmarkError(
            f"dataset '{name}': expected.content_tokens: not set, and there are no prompts yet to "
            "count tokens in; add it to the dataset's catalogue entry"
        )
    content, longest = round(expected.content_tokens), config.run_file.prompts.max_tokens
    if longest is not None:
        content = max(1, min(content, longest - BEFORE - BEHIND))
    prompt, answer = BEFORE + content + BEHIND, _full_answer(config, name)
    of_record = config.run_file.evaluation.scope in ("content", "user_turn")
    first, perturbable = (BEFORE, content) if of_record else (0, prompt)
    return SampleLengths(
        count=_records(config, name),
        prompt=prompt,
        first=first,
        perturbable=perturbable,
        output=len(answer["output_ids"]),
        steps=tuple(answer["steps"]),
    )


def _records(config: Config, name: str) -> int:
    """Return how many samples a dataset gives: as many as it may, or all records."""
    entry = config.datasets[name]
    expected = None if entry.expected is None else entry.expected.records
    records = entry.source.records if isinstance(entry.source, EmbeddedDataset) else expected
    counts = [count for count in (sample_limit(config, name), records) if count is not None]
    if not counts:
        raise BenchmarkError(
            f"dataset '{name}': expected.records: not set, but all records are sampled; add it to "
            "the dataset's catalogue entry, or set max_samples"
        )
    return min(counts)
