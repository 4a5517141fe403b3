"""Jobs that train, count or convert models."""

from __future__ import annotations

from typing import Annotated, Any

from pisoft.config.cells import SHUFFLED_LABELS
from pisoft.config.datasets import Haystack, Labels, Message
from pisoft.config.jobs.fields import DatasetName, Loaded, ModelName
from pisoft.config.models import TrainedModel, UnigramMaskedModel
from pisoft.config.resolved import Config
from pisoft.config.settings import At, JobSettings


class TrainingTask(JobSettings, section="datasets.{dataset}"):
    """One embedded dataset as training data of a tiny model."""

    dataset: DatasetName
    generator: Annotated[str, At("datasets.{dataset}.source.task")]
    haystack: Annotated[Haystack | None, At("datasets.{dataset}.source.haystack")] = None
    # Seed of the evaluated records, which training must not use.
    evaluation_seed: Annotated[int, At("datasets.{dataset}.source.seed")]
    messages: tuple[Message, ...]
    labels: Labels | None


def _tasks(config: Config, model: str) -> list[TrainingTask]:
    entries: dict[str, Any] = {**config.masked_models, **config.models}
    datasets = entries[model].source.datasets
    return [TrainingTask.from_config(config, dataset=name) for name in datasets]


class TrainJob(JobSettings):
    """Settings of `train_model`."""

    model: ModelName
    source: Annotated[TrainedModel, At("models.{model}.source")]
    tasks: Annotated[tuple[TrainingTask, ...], At(_tasks)]
    # Shuffle the labels of the training records; otherwise, accuracy is required.
    shuffled_labels: Annotated[bool, At(lambda variant: variant == SHUFFLED_LABELS)]


class MakeMaskedJob(JobSettings):
    """Settings of `make_masked_model`."""

    model: Annotated[str, At("{masked_model}")]
    source: Annotated[UnigramMaskedModel, At("masked_models.{masked_model}.source")]
    tasks: Annotated[
        tuple[TrainingTask, ...], At(lambda config, masked_model: _tasks(config, masked_model))
    ]


class ConvertJob(JobSettings):
    """Settings of `convert_model`; the weights are an input."""

    model: Loaded
