"""Slices of the configuration: exactly what one job depends on, and nothing else.

A rule passes its slice to its script as JSON with sorted keys. Snakemake re-runs a job when its
slice changes, so labels, resources and entries of other methods must not be part of it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import Field

from pisoft.catalogue import (
    TOKEN_BUDGETS,
    DatasetEntry,
    EmbeddedDataset,
    ExpectedRecords,
    FileDataset,
    HubDataset,
    HubModel,
    Labels,
    LocalModel,
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
    Cell,
    Config,
    DrawSettings,
    EvaluationSettings,
    GenerationSettings,
    Normalisation,
    Protocol,
    RankingSettings,
    Scope,
)
from pisoft.errors import BenchmarkError
from pisoft.studies import StudyMethod

# What an entry is whose source is of this kind; one of kind `hub` may be the published one.
OTHER_SOURCES = {
    "local": "weights in a local folder",
    "trained": "trained by the workflow",
    "file": "records in a local file",
    "embedded": "records made by the workflow",
}
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


class SummariseSlice(Slice):
    """Settings of `summarise`."""

    minimum_h0: float
    clamp: bool


class SummariseRankingSlice(Slice):
    """Settings of `summarise_ranking`."""

    not_applicable: dict[str, str]  # datasets that cannot be ranked, and why


class UncertaintySlice(Slice):
    """Settings of `estimate_uncertainty`."""

    datasets: tuple[str, ...]
    seed: int
    resamples: int


class LayerStudySlice(Slice):
    """Settings of `summarise_layer_study`."""

    methods: tuple[StudyMethod, ...]
    development_share: float
    seed: int
    minimum_h0: float
    clamp: bool


class PlannedModel(Strict):
    """What a model's jobs cost depends on."""

    source: HubModel | LocalModel | TrainedModel = Field(discriminator="kind")
    dtype: str
    quantization: str
    token_budget: int


class PlannedDataset(Strict):
    """What a dataset's jobs cost depends on."""

    task: Task
    messages: tuple[Message, ...]
    samples: int | None
    records: int | None  # of the source; None: not known
    expected: ExpectedRecords | None


class PlannedMethod(Strict):
    """What a method's jobs cost depends on."""

    method: str
    options: dict[str, Any]


class PlanSlice(Slice):
    """What a run costs depends on: `make plan`, and settings of `summarise_cost`."""

    models: dict[str, PlannedModel]
    masked_models: dict[str, TrainedMaskedModel]  # those that the workflow trains
    datasets: dict[str, PlannedDataset]
    methods: dict[str, PlannedMethod]  # every evaluated one
    cells: tuple[Cell, ...]  # of the main tables
    study_cells: tuple[Cell, ...]
    max_prompt_tokens: int | None
    generation: GenerationSettings
    evaluation: DrawSettings
    ranking: RankingSettings | None


class DisplaySlice(Slice):
    """Settings of tables and figures: names in order, with their labels."""

    models: dict[str, str]
    datasets: dict[str, str]
    methods: dict[str, str]

    def to_json(self) -> str:
        """Return the slice as JSON in the order of selection, which tables and legends follow."""
        return self.model_dump_json()


class SoftDisplaySlice(DisplaySlice):
    """Settings of tables of the soft metrics."""

    clamp: bool  # whether Soft-NS is clamped at 0
    types: dict[str, str]  # number type of each model, which the noise floor depends on


class OverviewSlice(SoftDisplaySlice):
    """Settings of the front page."""

    run: str


class ScoresSlice(DisplaySlice):
    """Settings of what shows or compares the scores of single samples."""

    scope: Scope  # tokens that have scores
    normalisation: Normalisation


class PublishedSlice(Slice):
    """Settings of the comparison with the paper: what is not as published."""

    models: dict[str, str]  # labels
    datasets: dict[str, str]
    other_models: dict[str, str]  # those that are no hub model of the catalogue: what they are
    other_datasets: dict[str, str]
    types: dict[str, str]  # number type of each model
    masked_model: str
    generation: GenerationSettings
    evaluation: EvaluationSettings
    ranking: RankingSettings | None


class ExplorerSlice(ScoresSlice):
    """Settings of `build_explorer`."""

    run: str
    samples: int  # of each model and dataset
    score_floor: float
    pi_grid: tuple[float, ...]


class TokensSlice(ScoresSlice):
    """Settings of the figures of single texts."""

    top_share: float  # of the tokens that have scores


class ProtocolFigureSlice(ScoresSlice):
    """Settings of the figure that explains the π-Soft metrics."""

    score_floor: float  # scores are clipped to [floor, 1 - floor] to calibrate


class CompareSlice(Slice):
    """Settings of `compare_methods`."""

    methods: tuple[str, ...]  # that explain the model
    scope: Scope
    normalisation: Normalisation


class TimingsSlice(DisplaySlice):
    """Settings of the table of timings."""

    controls: tuple[str, ...]  # methods of family `baseline`, whose speed is no achievement


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
        not_applicable=_ranking_obstacle(config.datasets[dataset]),
        ranking=_ranking_settings(config),
        scope=config.run_file.evaluation.scope,
        seed=config.run_file.seed,
        block_size=config.run_file.block_size,
        token_budget=config.models[model].token_budget,
    )


def summarise_slice(config: Config) -> SummariseSlice:
    """Return what `summarise` depends on."""
    return SummariseSlice(
        minimum_h0=config.run_file.evaluation.minimum_h0,
        clamp=config.run_file.evaluation.clamp,
    )


def summarise_ranking_slice(config: Config) -> SummariseRankingSlice:
    """Return what `summarise_ranking` depends on."""
    obstacles = {name: _ranking_obstacle(entry) for name, entry in config.datasets.items()}
    return SummariseRankingSlice(
        not_applicable={name: why for name, why in obstacles.items() if why is not None}
    )


def uncertainty_slice(config: Config) -> UncertaintySlice:
    """Return what `estimate_uncertainty` depends on."""
    return UncertaintySlice(
        datasets=tuple(config.datasets),
        seed=config.run_file.seed,
        resamples=config.run_file.statistics.resamples,
    )


def plan_slice(config: Config) -> PlanSlice:
    """Return what a run costs depends on; labels and resources are no part of it."""
    run_file = config.run_file
    return PlanSlice(
        models={name: _planned_model(entry) for name, entry in config.models.items()},
        masked_models=_trained_masked_models(config),
        datasets={name: _planned_dataset(config, name) for name in config.datasets},
        methods={
            name: PlannedMethod(method=method_name(name, entry), options=entry.options)
            for name, entry in config.evaluated_methods.items()
        },
        cells=tuple(config.cells),
        study_cells=tuple(config.study_cells),
        max_prompt_tokens=run_file.prompts.max_tokens,
        generation=run_file.generation,
        evaluation=draw_settings(config),
        ranking=run_file.ranking,
    )


def _planned_model(entry: ModelEntry) -> PlannedModel:
    return PlannedModel(
        source=entry.source,
        dtype=entry.dtype,
        quantization=entry.quantization,
        token_budget=entry.token_budget or TOKEN_BUDGETS["cuda" if entry.resources.gpu else "cpu"],
    )


def _planned_dataset(config: Config, name: str) -> PlannedDataset:
    entry = config.datasets[name]
    expected = None if entry.expected is None else entry.expected.records
    return PlannedDataset(
        task=entry.task,
        messages=entry.messages,
        samples=sample_slice(config, name).samples,
        records=entry.source.records if isinstance(entry.source, EmbeddedDataset) else expected,
        expected=entry.expected,
    )


def _trained_masked_models(config: Config) -> dict[str, TrainedMaskedModel]:
    """Return the masked models that a rule trains, if a method needs them."""
    if not any(needs_masked_model(config, method) for method in config.evaluated_methods):
        return {}
    sources = {name: entry.source for name, entry in config.masked_models.items()}
    return {name: s for name, s in sources.items() if isinstance(s, TrainedMaskedModel)}


def display_slice(config: Config) -> DisplaySlice:
    """Return what tables and figures depend on, besides the summary files."""
    from pisoft.attribution import load_method

    return DisplaySlice(
        models={name: entry.label for name, entry in config.models.items()},
        datasets={name: entry.label for name, entry in config.datasets.items()},
        methods={
            name: entry.label or load_method(method_name(name, entry)).label
            for name, entry in config.methods.items()
        },
    )


def accuracy_slice(config: Config) -> DisplaySlice:
    """Return what the accuracy table depends on: no method, as answers come before them."""
    return display_slice(config).model_copy(update={"methods": {}})


def soft_display_slice(config: Config) -> SoftDisplaySlice:
    """Return what tables of the soft metrics depend on, besides the summary files."""
    return SoftDisplaySlice(
        **dict(display_slice(config)),
        clamp=config.run_file.evaluation.clamp,
        types=_number_types(config),
    )


def overview_slice(config: Config) -> OverviewSlice:
    """Return what the front page depends on, besides the summary files."""
    return OverviewSlice(**dict(soft_display_slice(config)), run=config.run_file.run)


def scores_slice(config: Config) -> ScoresSlice:
    """Return what the display of scores depends on, besides their files."""
    evaluation = config.run_file.evaluation
    return ScoresSlice(
        **dict(display_slice(config)),
        scope=evaluation.scope,
        normalisation=evaluation.normalisation,
    )


def published_slice(config: Config) -> PublishedSlice:
    """Return what the comparison with the paper depends on, besides the summary files.

    A model or a dataset is the published one if it is the catalogue's entry and comes from the hub.
    """
    run_file = config.run_file
    return PublishedSlice(
        models={name: entry.label for name, entry in config.models.items()},
        datasets={name: entry.label for name, entry in config.datasets.items()},
        other_models=_not_published(config.models, run_file.catalogue.models),
        other_datasets=_not_published(config.datasets, run_file.catalogue.datasets),
        types=_number_types(config),
        masked_model=run_file.masked_model,
        generation=run_file.generation,
        evaluation=run_file.evaluation,
        ranking=run_file.ranking,
    )


def explorer_slice(config: Config) -> ExplorerSlice:
    """Return what `build_explorer` depends on; the run must have an explorer."""
    explorer = config.run_file.explorer
    assert explorer is not None
    return ExplorerSlice(
        **dict(scores_slice(config)),
        run=config.run_file.run,
        samples=explorer.samples,
        score_floor=config.run_file.evaluation.score_floor,
        pi_grid=config.run_file.evaluation.pi_grid,
    )


def tokens_slice(config: Config) -> TokensSlice:
    """Return what the figures of single texts depend on; they must be switched on."""
    qualitative = config.run_file.qualitative
    assert qualitative is not None
    return TokensSlice(**dict(scores_slice(config)), top_share=qualitative.top_share)


def protocol_figure_slice(config: Config) -> ProtocolFigureSlice:
    """Return what the figure that explains the π-Soft metrics depends on, besides its files."""
    floor = config.run_file.evaluation.score_floor
    return ProtocolFigureSlice(**dict(scores_slice(config)), score_floor=floor)


def compare_slice(config: Config, model: str) -> CompareSlice:
    """Return what `compare_methods` depends on."""
    evaluation = config.run_file.evaluation
    return CompareSlice(
        methods=config.methods_of(model),
        scope=evaluation.scope,
        normalisation=evaluation.normalisation,
    )


def model_display_slice(config: Config, model: str) -> DisplaySlice:
    """Return what tables and figures of one model depend on: its methods are those it has."""
    shown = display_slice(config)
    methods = {name: shown.methods[name] for name in config.methods_of(model)}
    return shown.model_copy(update={"models": {model: shown.models[model]}, "methods": methods})


def timings_slice(config: Config) -> TimingsSlice:
    """Return what the table of timings depends on, besides its summary file."""
    from pisoft.attribution import load_method

    controls = tuple(
        name
        for name, entry in config.methods.items()
        if load_method(method_name(name, entry)).family == "baseline"
    )
    return TimingsSlice(**dict(display_slice(config)), controls=controls)


def cost_slice(config: Config) -> DisplaySlice:
    """Return what the table of costs depends on, besides its summary file."""
    return display_slice(config).model_copy(update={"datasets": {}, "methods": {}})


def layer_study_slice(config: Config) -> LayerStudySlice:
    """Return what `summarise_layer_study` depends on; there must be a layer study."""
    study = config.run_file.layer_study
    assert study is not None
    return LayerStudySlice(
        methods=config.study_methods,
        development_share=study.development_share,
        seed=config.run_file.seed,
        minimum_h0=config.run_file.evaluation.minimum_h0,
        clamp=config.run_file.evaluation.clamp,
    )


def layer_study_display_slice(config: Config) -> DisplaySlice:
    """Return what the layer study's tables and figures depend on, besides its summary file."""
    return DisplaySlice(
        models={method.model: config.models[method.model].label for method in config.study_methods},
        datasets={name: config.datasets[name].label for name in config.study_datasets},
        methods={},
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
    return tuple(
        name for name, entry in config.datasets.items() if _ranking_obstacle(entry) is None
    )


def method_name(name: str, entry: MethodEntry) -> str:
    """Return the method file's name for a catalogue entry."""
    return entry.method or name


def _ranking_settings(config: Config) -> RankingSettings:
    if config.run_file.ranking is None:
        raise BenchmarkError("ranking: is null, which switches insertion and deletion off")
    return config.run_file.ranking


def _ranking_obstacle(entry: DatasetEntry) -> str | None:
    """Return why a dataset cannot be ranked by flips of the label word; None if it can."""
    return None if entry.task == "classification" else OPEN_GENERATION


def _number_types(config: Config) -> dict[str, str]:
    """Return the number type of each model's weights and activations in words."""
    return {
        name: entry.dtype + ("" if entry.quantization == "none" else f", {entry.quantization}")
        for name, entry in config.models.items()
    }


def _not_published(
    entries: Mapping[str, ModelEntry | DatasetEntry], additions: Collection[str]
) -> dict[str, str]:
    """Return what those entries are that the catalogue does not have from the hub."""
    origins = {name: OTHER_SOURCES.get(entry.source.kind) for name, entry in entries.items()}
    own = dict.fromkeys(additions, "an entry of the run file")
    found = {name: origin or own.get(name) for name, origin in origins.items()}
    return {name: origin for name, origin in found.items() if origin is not None}


def _training_task(name: str, entry: DatasetEntry) -> TrainingTask:
    assert isinstance(entry.source, EmbeddedDataset)
    return TrainingTask(
        dataset=name,
        generator=entry.source.task,
        evaluation_seed=entry.source.seed,
        messages=entry.messages,
        labels=entry.labels,
    )
