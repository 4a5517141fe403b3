"""Jobs that fetch and sample records and build prompts."""

from __future__ import annotations

from typing import Annotated

from pisoft.config.base import Task
from pisoft.config.datasets import (
    EmbeddedDataset,
    FileDataset,
    HubDataset,
    Labels,
    Message,
    TextField,
)
from pisoft.config.jobs.fields import DatasetName, Loaded, Seed
from pisoft.config.resolved import Config
from pisoft.config.settings import At, JobSettings
from pisoft.config.shards import dataset_of, sample_limit, sample_range


class FetchJob(JobSettings, section="datasets.{dataset}"):
    """Settings of `fetch_dataset`."""

    dataset: DatasetName
    task: Task
    source: HubDataset | FileDataset | EmbeddedDataset
    fields: dict[str, TextField]
    labels: Labels | None
    id_column: str | None
    answer_column: str | None
    max_words: int | None = None
    cluster_column: str | None = None


def _samples(config: Config, part: str) -> tuple[int, int] | int | None:
    return sample_range(part) or sample_limit(config, dataset_of(part))


def _local(config: Config, part: str) -> FetchJob | None:
    dataset = dataset_of(part)
    if config.datasets[dataset].source.kind != "file":
        return None
    return FetchJob.from_config(config, dataset=dataset)


class SampleJob(JobSettings):
    """Settings of `sample_dataset`."""

    dataset: Annotated[str, At(dataset_of)]
    # Number of samples, or the range of a shard; None: all.
    samples: Annotated[int | tuple[int, int] | None, At(_samples)]
    seed: Seed
    # How to read local files; other sources are fetched. A shard depends on its records only.
    local: Annotated[FetchJob | None, At(_local)] = None

    @property
    def first(self) -> int:
        """Number of samples before this part."""
        return self.samples[0] if isinstance(self.samples, tuple) else 0

    @property
    def count(self) -> int | None:
        """Number of samples up to the end of this part; None: all."""
        return self.samples[1] if isinstance(self.samples, tuple) else self.samples


def _reserved_tokens(config: Config, dataset: str) -> int:
    is_label = config.datasets[dataset].task == "classification"
    return 1 if is_label else config.run_file.generation.max_new_tokens


class PromptJob(JobSettings, section="datasets.{dataset}"):
    """Settings of `build_prompts`."""

    model: Loaded
    chat_template: Annotated[str, At("models.{model}.chat_template")]
    dataset: DatasetName
    messages: tuple[Message, ...]
    label_words: tuple[str, ...]
    truncate: str | None
    max_tokens: Annotated[int | None, At("run_file.prompts.max_tokens")]
    reserved_tokens: Annotated[int, At(_reserved_tokens)]
