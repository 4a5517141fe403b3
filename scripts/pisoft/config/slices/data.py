"""Slices of the jobs that fetch, sample and build prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.config.base import Task
from pisoft.config.datasets import (
    EmbeddedDataset,
    FileDataset,
    HubDataset,
    Labels,
    Message,
    TextField,
)
from pisoft.config.parts import dataset_of, parts, places, sample_limit
from pisoft.config.slices.base import ModelSlice, Slice, model_slice

if TYPE_CHECKING:
    from pisoft.config.resolved import Config


class FetchSlice(Slice):
    """Settings of `fetch_dataset`."""

    dataset: str
    task: Task
    source: HubDataset | FileDataset | EmbeddedDataset
    fields: dict[str, TextField]
    labels: Labels | None
    id_column: str | None
    answer_column: str | None


class SampleSlice(Slice):
    """Settings of `sample_dataset`."""

    dataset: str
    samples: int | tuple[int, int] | None  # how many, or the places of a shard; None: all
    seed: int


class PromptSlice(Slice):
    """Settings of `build_prompts`."""

    model: ModelSlice
    chat_template: str
    dataset: str
    messages: tuple[Message, ...]
    label_words: tuple[str, ...]
    truncate: str | None
    max_tokens: int | None
    reserved_tokens: int


def fetch_slice(config: Config, dataset: str) -> FetchSlice:
    """Return what `fetch_dataset` depends on."""
    entry = config.datasets[dataset]
    return FetchSlice(
        dataset=dataset,
        task=entry.task,
        source=entry.source,
        fields=entry.fields,
        labels=entry.labels,
        id_column=entry.id_column,
        answer_column=entry.answer_column,
    )


class JoinSlice(Slice):
    """Settings of `join_shards`."""

    parts: tuple[str, ...]


def sample_slice(config: Config, part: str) -> SampleSlice:
    """Return what `sample_dataset` depends on."""
    dataset = dataset_of(part)
    samples = places(part) or sample_limit(config, dataset)
    return SampleSlice(dataset=dataset, samples=samples, seed=config.run_file.seed)


def join_slice(config: Config, model: str, dataset: str) -> JoinSlice:
    """Return what `join_shards` depends on."""
    return JoinSlice(parts=tuple(parts(config, model, dataset)))


def prompt_slice(config: Config, model: str, dataset: str) -> PromptSlice:
    """Return what `build_prompts` depends on."""
    entry = config.datasets[dataset]
    words = tuple(entry.labels.words.values()) if entry.labels else ()
    generated = 1 if entry.task == "classification" else config.run_file.generation.max_new_tokens
    return PromptSlice(
        model=model_slice(model, config.models[model]),
        chat_template=config.models[model].chat_template,
        dataset=dataset,
        messages=entry.messages,
        label_words=words,
        truncate=entry.truncate,
        max_tokens=config.run_file.prompts.max_tokens,
        reserved_tokens=generated,
    )
