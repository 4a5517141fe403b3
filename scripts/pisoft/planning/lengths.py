"""How long prompts and answers are: measured where they exist, estimated where not."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pisoft.config.base import Scope
from pisoft.config.datasets import Message
from pisoft.config.slices import PlannedDataset, PlanSlice
from pisoft.contracts import OK
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.scope import perturbable_positions
from pisoft.relations import read_generations, read_prompts
from pisoft.shards import cell_path, is_complete

MEASURED = "measured"
PROMPTS_MEASURED = "prompts measured, answers of full length"
ESTIMATED = "estimated"

CHARACTERS_PER_TOKEN = 5  # of plain English instructions
MARKER_TOKENS = 5  # of a chat template: begin of turn, role, line end, end of turn
CLASSIFICATION_STEPS = (0,)


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
        found, begin = [], 0
        for sample in self.samples:
            end = begin + sample.count
            count = min(end, last) - max(begin, first)
            if count > 0:
                found.append(replace(sample, count=count))
            begin = end
        return Lengths(tuple(found), self.origin)

    @property
    def count(self) -> int:
        """Samples."""
        return sum(sample.count for sample in self.samples)

    @property
    def longest(self) -> int:
        """Most tokens that the model reads of a sample, 0 without samples."""
        return max((sample.read for sample in self.samples), default=0)


def sample_lengths(
    settings: PlanSlice, model: str, dataset: str, context: int | None, results: Path | None
) -> Lengths:
    """Return the lengths of a model's prompts and answers on a dataset.

    Args:
        settings: the run.
        model: name of the model.
        dataset: name of the dataset.
        context: longest sequence of the model, tokens.
        results: the run's folder, in which prompts and generations may lie; None: unused.

    Raises:
        BenchmarkError: there are no prompts yet, and the catalogue does not say how long records
            are or how many there are; or a file cannot be read.
    """
    task = settings.datasets[dataset].task
    cell = cell_path(model, dataset, settings.models[model].shards[dataset])
    if results is None or not is_complete(results / "data/prompts" / cell):
        return Lengths((_estimated(settings, dataset, context),), ESTIMATED)
    prompts, generations = results / "data/prompts" / cell, results / "data/generations" / cell
    rows = read_prompts(prompts)
    if is_complete(generations):
        answers = read_generations(generations, prompts, rows)
        pairs = [pair for pair in zip(rows, answers, strict=True) if pair[0]["status"] == OK]
        origin = MEASURED
    else:
        pairs = [(row, _full_answer(settings, task)) for row in rows if row["status"] == OK]
        origin = MEASURED if task == "classification" else PROMPTS_MEASURED
    return Lengths(tuple(_measured(pairs, settings.evaluation.scope)), origin)


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


def _full_answer(settings: PlanSlice, task: str) -> dict[str, Any]:
    """Return an answer that is as long as it may be."""
    generation = settings.generation
    if task == "classification":
        return {"output_ids": [0], "steps": CLASSIFICATION_STEPS, "status": OK}
    length = generation.max_new_tokens
    steps = range(0, length, generation.step_interval)
    return {"output_ids": [0] * length, "steps": steps, "status": OK}


# Estimates ------------------------------------------------------------------------------------


def _estimated(settings: PlanSlice, name: str, context: int | None) -> SampleLengths:
    """Return samples of mean length, with a template of estimated length around each."""
    dataset = settings.datasets[name]
    if dataset.expected is None:
        raise BenchmarkError(
            f"dataset '{name}': expected.content_tokens: not set, and there are no prompts yet to "
            "count tokens in; add it to the dataset's catalogue entry"
        )
    before, between, behind = _template_tokens(dataset.messages)
    answer = _full_answer(settings, dataset.task)
    output = len(answer["output_ids"])
    limits = [settings.max_prompt_tokens, None if context is None else context - output]
    longest = min((limit for limit in limits if limit is not None), default=None)
    content = round(dataset.expected.content_tokens)
    if longest is not None:
        content = max(1, min(content, longest - before - between - behind))
    prompt = before + between + content + behind
    touched = {
        "content": (before, content),
        "user_turn": (before, between + content),
        "all_but_bos": (1, prompt - 1),
        "all": (0, prompt),
    }
    first, perturbable = touched[settings.evaluation.scope]
    return SampleLengths(
        count=_records(name, dataset),
        prompt=prompt,
        first=first,
        perturbable=perturbable,
        output=output,
        steps=tuple(answer["steps"]),
    )


def _template_tokens(messages: Sequence[Message]) -> tuple[int, int, int]:
    """Return template tokens before the first field, between fields, and behind the last."""
    pieces: list[tuple[float, bool]] = []  # tokens, and whether a field follows
    for message in messages:
        pieces.append((MARKER_TOKENS, False))
        for text, field, _, _ in string.Formatter().parse(message.content):
            pieces.append((len(text) / CHARACTERS_PER_TOKEN, field is not None))
    pieces.append((MARKER_TOKENS, False))  # the answer's turn begins
    fields = [index for index, (_, field) in enumerate(pieces) if field]
    first, last = fields[0] + 1, fields[-1] + 1
    parts = pieces[:first], pieces[first:last], pieces[last:]
    before, between, behind = (round(sum(tokens for tokens, _ in part)) for part in parts)
    return before, between, behind


def _records(name: str, dataset: PlannedDataset) -> int:
    """Return how many samples a dataset gives: as many as it may, or all records."""
    known = [dataset.samples, dataset.records]
    given = [count for count in known if count is not None]
    if not given:
        raise BenchmarkError(
            f"dataset '{name}': expected.records: not set, but all records are sampled; add it to "
            "the dataset's catalogue entry, or set max_samples"
        )
    return min(given)
