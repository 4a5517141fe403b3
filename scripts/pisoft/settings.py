"""Slices of the configuration: exactly what one job depends on, and nothing else.

A rule passes its slice to its script as JSON with sorted keys. Snakemake re-runs a job when its
slice changes, so labels, resources and entries of other methods must not be part of it.

Here are those of the jobs that compute results; :mod:`pisoft.display_settings` has those that turn
results into summaries, tables, figures and pages, :mod:`pisoft.plan_settings` that of the plan.
"""

from __future__ import annotations

import json
from typing import Any

from pisoft.catalogue import (
    DatasetEntry,
    EmbeddedDataset,
    FileDataset,
    HubDataset,
    HubModel,
    Labels,
    MaskedModelEntry,
    Message,
    MethodEntry,
    ModelEntry,
    Strict,
    Task,
    TextField,
    TrainedMaskedModel,
    TrainedModel,
)
from pisoft.config import (
    Config,
    DrawSettings,
    Protocol,
    RankingSettings,
    Scope,
)
from pisoft.errors import BenchmarkError

OPEN_GENERATION = "open generation has no label word that could flip"


class Slice(Strict):
    """Settings of one job."""

    def to_json(self) -> str:
        """Return the slice as JSON with sorted keys, equal for equal settings."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)


class ModelSlice(Slice):
    """What identifies a loaded model; weights of local and trained models are input files."""

    name: str
    repository: str | None  # None: the weights lie in the folder given to the script
    revision: str | None
    dtype: str
    quantization: str
    device: str


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
    samples: int | None
    seed: int


class TrainingTask(Strict):
    """One embedded dataset as a tiny model trains on it."""

    dataset: str
    generator: str
    evaluation_seed: int  # training must use other records
    messages: tuple[Message, ...]
    labels: Labels | None


class TrainSlice(Slice):
    """Settings of `train_model`."""

    model: str
    source: TrainedModel
    tasks: tuple[TrainingTask, ...]


class TrainMaskedSlice(Slice):
    """Settings of `train_masked_model`."""

    model: str
    source: TrainedMaskedModel
    tasks: tuple[TrainingTask, ...]


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


class GenerateSlice(Slice):
    """Settings of `generate`."""

    model: ModelSlice
    task: Task
    max_new_tokens: int
    step_interval: int
    block_size: int
    token_budget: int | None  # None: by device


class AttributeSlice(Slice):
    """Settings of `attribute`."""

    model: ModelSlice
    masked_model: ModelSlice | None  # None: the method needs none
    method: str
    options: dict[str, Any]
    seed: int
    block_size: int
    token_budget: int | None  # None: by device


class EvaluateSlice(Slice):
    """Settings of `evaluate_soft`."""

    model: ModelSlice
    compile: bool
    protocol: Protocol
    evaluation: DrawSettings
    seed: int
    block_size: int
    token_budget: int | None  # None: by device


class RankingSlice(Slice):
    """Settings of `evaluate_ranking`."""

    model: ModelSlice
    not_applicable: str | None  # why the dataset cannot be ranked; None: it can
    ranking: RankingSettings
    scope: Scope
    seed: int
    block_size: int
    token_budget: int | None  # None: by device


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


def sample_slice(config: Config, dataset: str) -> SampleSlice:
    """Return what `sample_dataset` depends on."""
    limits = [config.datasets[dataset].samples, config.run_file.max_samples]
    given = [limit for limit in limits if limit is not None]
    return SampleSlice(dataset=dataset, samples=min(given, default=None), seed=config.run_file.seed)


def train_slice(config: Config, model: str) -> TrainSlice:
    """Return what `train_model` depends on; the model's source must be of kind `trained`."""
    source = config.models[model].source
    assert isinstance(source, TrainedModel)
    tasks = tuple(_training_task(name, config.datasets[name]) for name in source.datasets)
    return TrainSlice(model=model, source=source, tasks=tasks)


def train_masked_slice(config: Config, masked_model: str) -> TrainMaskedSlice:
    """Return what `train_masked_model` depends on; the source must be of kind `trained`."""
    source = config.masked_models[masked_model].source
    assert isinstance(source, TrainedMaskedModel)
    tasks = tuple(_training_task(name, config.datasets[name]) for name in source.datasets)
    return TrainMaskedSlice(model=masked_model, source=source, tasks=tasks)


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


def generate_slice(config: Config, model: str, dataset: str) -> GenerateSlice:
    """Return what `generate` depends on."""
    return GenerateSlice(
        model=model_slice(model, config.models[model]),
        task=config.datasets[dataset].task,
        max_new_tokens=config.run_file.generation.max_new_tokens,
        step_interval=config.run_file.generation.step_interval,
        block_size=config.run_file.block_size,
        token_budget=config.models[model].token_budget,
    )


def attribute_slice(config: Config, model: str, method: str) -> AttributeSlice:
    """Return what `attribute` depends on."""
    entry = config.evaluated_methods[method]
    masked = config.run_file.masked_model if needs_masked_model(config, method) else None
    return AttributeSlice(
        model=model_slice(model, config.models[model]),
        masked_model=model_slice(masked, config.masked_models[masked]) if masked else None,
        method=method_name(method, entry),
        options=entry.options,
        seed=config.run_file.seed,
        block_size=config.run_file.block_size,
        token_budget=config.models[model].token_budget,
    )


def evaluate_slice(config: Config, protocol: Protocol, model: str) -> EvaluateSlice:
    """Return what `evaluate_soft` depends on."""
    return EvaluateSlice(
        model=model_slice(model, config.models[model]),
        compile=config.models[model].compile,
        protocol=protocol,
        evaluation=draw_settings(config),
        seed=config.run_file.seed,
        block_size=config.run_file.block_size,
        token_budget=config.models[model].token_budget,
    )


def draw_settings(config: Config) -> DrawSettings:
    """Return the part of the run's evaluation settings that its draws depend on."""
    part = config.run_file.evaluation.model_dump(include=set(DrawSettings.model_fields))
    return DrawSettings.model_validate(part)


def ranking_slice(config: Config, model: str, dataset: str) -> RankingSlice:
    """Return what `evaluate_ranking` depends on.

    Raises:
        BenchmarkError: the run file switches insertion and deletion off.
    """
    return RankingSlice(
        model=model_slice(model, config.models[model]),
        not_applicable=ranking_obstacle(config.datasets[dataset]),
        ranking=_ranking_settings(config),
        scope=config.run_file.evaluation.scope,
        seed=config.run_file.seed,
        block_size=config.run_file.block_size,
        token_budget=config.models[model].token_budget,
    )


def model_slice(name: str, entry: ModelEntry | MaskedModelEntry) -> ModelSlice:
    """Return what identifies a loaded model."""
    hub = entry.source if isinstance(entry.source, HubModel) else None
    return ModelSlice(
        name=name,
        repository=hub.repository if hub else None,
        revision=hub.revision if hub else None,
        dtype=entry.dtype,
        quantization=entry.quantization if isinstance(entry, ModelEntry) else "none",
        device=entry.device,
    )


def needs_masked_model(config: Config, method: str) -> bool:
    """Return whether a selected method needs the masked language model."""
    from pisoft.attribution import load_method

    return load_method(method_name(method, config.evaluated_methods[method])).needs_masked_model


def ranked_datasets(config: Config) -> tuple[str, ...]:
    """Return the datasets that insertion and deletion are computed on; none if switched off."""
    if config.run_file.ranking is None:
        return ()
    return tuple(name for name, entry in config.datasets.items() if ranking_obstacle(entry) is None)


def method_name(name: str, entry: MethodEntry) -> str:
    """Return the method file's name for a catalogue entry."""
    return entry.method or name


def _ranking_settings(config: Config) -> RankingSettings:
    if config.run_file.ranking is None:
        raise BenchmarkError("ranking: is null, which switches insertion and deletion off")
    return config.run_file.ranking


def ranking_obstacle(entry: DatasetEntry) -> str | None:
    """Return why a dataset cannot be ranked by flips of the label word; None if it can."""
    return None if entry.task == "classification" else OPEN_GENERATION


def _training_task(name: str, entry: DatasetEntry) -> TrainingTask:
    assert isinstance(entry.source, EmbeddedDataset)
    return TrainingTask(
        dataset=name,
        generator=entry.source.task,
        evaluation_seed=entry.source.seed,
        messages=entry.messages,
        labels=entry.labels,
    )
