"""Slices of the jobs that make models: train the embedded ones, dequantise GGUF files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.config.base import Strict
from pisoft.config.datasets import (
    DatasetEntry,
    EmbeddedDataset,
    Labels,
    Message,
)
from pisoft.config.models import (
    TrainedMaskedModel,
    TrainedModel,
)
from pisoft.config.slices.base import Slice

if TYPE_CHECKING:
    from pisoft.config.resolved import Config


class TrainingTask(Strict):
    """One embedded dataset as a tiny model trains on it."""

    dataset: str
    generator: str
    evaluation_seed: int  # training must use other records
    messages: tuple[Message, ...]
    labels: Labels | None


class TrainSlice(Slice):
    """Settings of `train_model` and `train_shuffled_model`."""

    model: str
    source: TrainedModel
    tasks: tuple[TrainingTask, ...]
    shuffled_labels: bool  # of the training records; the model is then held to no accuracy


class TrainMaskedSlice(Slice):
    """Settings of `train_masked_model`."""

    model: str
    source: TrainedMaskedModel
    tasks: tuple[TrainingTask, ...]


class DequantiseSlice(Slice):
    """Settings of `dequantise_model`; the GGUF file is an input."""

    model: str
    dtype: str


def train_slice(config: Config, model: str) -> TrainSlice:
    """Return what `train_model` depends on; the model's source must be of kind `trained`."""
    source = config.models[model].source
    assert isinstance(source, TrainedModel)
    tasks = tuple(_training_task(name, config.datasets[name]) for name in source.datasets)
    return TrainSlice(model=model, source=source, tasks=tasks, shuffled_labels=False)


def train_shuffled_slice(config: Config, model: str) -> TrainSlice:
    """Return what `train_shuffled_model` depends on: as :func:`train_slice`."""
    return train_slice(config, model).model_copy(update={"shuffled_labels": True})


def train_masked_slice(config: Config, masked_model: str) -> TrainMaskedSlice:
    """Return what `train_masked_model` depends on; the source must be of kind `trained`."""
    source = config.masked_models[masked_model].source
    assert isinstance(source, TrainedMaskedModel)
    tasks = tuple(_training_task(name, config.datasets[name]) for name in source.datasets)
    return TrainMaskedSlice(model=masked_model, source=source, tasks=tasks)


def dequantise_slice(config: Config, model: str) -> DequantiseSlice:
    """Return what `dequantise_model` depends on."""
    return DequantiseSlice(model=model, dtype=config.models[model].dtype)


def _training_task(name: str, entry: DatasetEntry) -> TrainingTask:
    assert isinstance(entry.source, EmbeddedDataset)
    return TrainingTask(
        dataset=name,
        generator=entry.source.task,
        evaluation_seed=entry.source.seed,
        messages=entry.messages,
        labels=entry.labels,
    )
