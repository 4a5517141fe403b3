"""The settings of each job: what it depends on of the configuration, and nothing else.

A rule passes them to its script as JSON. Snakemake re-runs a job when they change, so
labels, resources and entries of other methods must not be part of it.

Each is a model whose fields say where in the resolved configuration their values stand: below
the place that the class names by `of`, under the field's own name; or at the place, or by the
function, that the field names by `At`; else the field's default. Braces hold wildcards of the rule,
a star stands for every key of a mapping.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field

from pisoft.config.base import Ablation, Clamp, Protocol, Scope, Strict, Task
from pisoft.config.cells import SHUFFLED_LABELS
from pisoft.config.datasets import (
    DatasetEntry,
    EmbeddedDataset,
    FileDataset,
    HubDataset,
    Labels,
    Message,
    TextField,
)
from pisoft.config.evaluation import (
    DrawSettings,
    EvaluationSettings,
    RankingSettings,
    ScoreSettings,
)
from pisoft.config.metric_validation import Control, Permuted
from pisoft.config.models import (
    HubModel,
    MaskedModelEntry,
    ModelEntry,
    TrainedModel,
    UnigramMaskedModel,
)
from pisoft.config.operators import allowed
from pisoft.config.resolved import Config
from pisoft.config.run_file import GenerationSettings
from pisoft.config.shards import Shards, dataset_of, first_place, places, sample_limit, shards
from pisoft.config.studies import SELECTED_LABELS, SELECTED_METHODS, StudyDepth
from pisoft.errors import BenchmarkError

OPEN_GENERATION = "open generation has no label word that could flip"


@dataclass(frozen=True)
class At:
    """Where a field's value stands, `models.{model}.dtype`, or a function that makes it.

    A place begins with a wildcard or a part of the configuration. A function takes the
    configuration, if it wants it, and wildcards, by their names.
    """

    place: str | Callable[..., Any]

    @cached_property
    def wildcards(self) -> tuple[str, ...]:
        """The wildcards that the value depends on, and `config`."""
        if callable(self.place):
            return tuple(inspect.signature(self.place).parameters)
        first = self.place.partition(".")[0]
        root = () if first in Config.model_fields or hasattr(Config, first) else (first,)
        return (*root, *re.findall(r"{(\w+)}", self.place))

    def value(self, config: Config, context: Mapping[str, Any]) -> Any:
        """Return the value; None of a section that is switched off."""
        if callable(self.place):
            return self.place(**{name: context[name] for name in self.wildcards})
        first, *rest = self.place.split(".")
        return _follow(
            context[first] if first in context else getattr(config, first), rest, context
        )


def _follow(value: Any, path: list[str], context: Mapping[str, Any]) -> Any:
    if not path or value is None:
        return value
    part, rest = path[0].format_map(context), path[1:]
    if part == "*":
        return {key: _follow(child, rest, context) for key, child in value.items()}
    return _follow(value[part] if isinstance(value, dict) else getattr(value, part), rest, context)


class JobSettings(Strict):
    """Settings of one job."""

    sorts_keys: ClassVar[bool] = True  # false: the order of keys is a setting, too
    below: ClassVar[str | None] = None  # where fields without a place of their own stand

    def __init_subclass__(cls, of: str | None = None, **others: Any) -> None:
        if of is not None:
            cls.below = of
        super().__init_subclass__(**others)

    @classmethod
    @cache
    def wildcards(cls) -> tuple[str, ...]:
        """Return the wildcards that the settings depend on."""
        names = (name for place in cls.places().values() for name in place.wildcards)
        return tuple(dict.fromkeys(name for name in names if name != "config"))

    @classmethod
    @cache
    def places(cls) -> dict[str, At]:
        """Return where each field is taken from; those without a place have their default."""
        places = {}
        for name, field in cls.model_fields.items():
            marks = [mark for mark in field.metadata if isinstance(mark, At)]
            if marks:
                places[name] = marks[-1]
            elif cls.below is not None:
                places[name] = At(f"{cls.below}.{name}")
        return places

    @classmethod
    def of(cls, config: Config, **wildcards: str) -> Self:
        """Return what a job with these wildcards depends on.

        Raises:
            BenchmarkError: the run file switches it off.
        """
        context = {"config": config, "operator": "", "variant": "", **wildcards}
        if "part" in wildcards:
            context["dataset"] = dataset_of(wildcards["part"])
        values = {name: place.value(config, context) for name, place in cls.places().items()}
        for name, value in values.items():
            if value is None and type(None) not in get_args(cls.model_fields[name].annotation):
                place = str(cls.places()[name].place).removeprefix("run_file.")
                raise BenchmarkError(f"{place.partition('.')[0]}: is null, which switches it off")
        return cls(**values)

    def to_json(self) -> str:
        """Return them as JSON, equal for equal settings.

        It holds no character of markup: Snakemake puts it into the script of its report as it is.
        """
        text = json.dumps(self.model_dump(mode="json"), sort_keys=self.sorts_keys)
        for character in "<>&":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text


# Loaded models --------------------------------------------------------------------------------


class LoadedModel(JobSettings):
    """What identifies a loaded model; weights of local and trained models are input files."""

    name: str
    repository: str | None  # None: the weights lie in the folder given to the script
    revision: str | None
    dtype: str
    quantization: str
    device: str


def loaded_model(name: str, entry: ModelEntry | MaskedModelEntry) -> LoadedModel:
    """Return what identifies a loaded model."""
    hub = entry.source if isinstance(entry.source, HubModel) else None
    return LoadedModel(
        name=name,
        repository=hub.repository if hub else None,
        revision=hub.revision if hub else None,
        dtype=entry.dtype,
        quantization=entry.quantization if isinstance(entry, ModelEntry) else "none",
        device=entry.device,
    )


def _loaded(config: Config, model: str) -> LoadedModel:
    return loaded_model(model, config.models[model])


def _explained(config: Config, model: str, variant: str) -> LoadedModel:
    name = f"{model}-{variant}" if variant == SHUFFLED_LABELS else model
    return loaded_model(name, config.models[model])


def _reinitialised_layers(config: Config, variant: str) -> int | None:
    return config.variants[variant].reinitialised_layers if variant else None


def _masked(config: Config, method: str) -> LoadedModel | None:
    if not config.evaluated_methods[method].needs_masked_model:
        return None
    name = config.run_file.masked_model
    return loaded_model(name, config.masked_models[name])


Loaded = Annotated[LoadedModel, At(_loaded)]
DatasetName = Annotated[str, At("dataset")]
ModelName = Annotated[str, At("model")]
Seed = Annotated[int, At("run_file.seed")]
BlockSize = Annotated[int, At("run_file.block_size")]
TokenBudget = Annotated[int | None, At("models.{model}.token_budget")]  # None: by device
Resamples = Annotated[int, At("run_file.statistics.resamples")]
# None: equivalence is not tested.
EquivalenceMargin = Annotated[float | None, At("run_file.statistics.equivalence_margin")]
ScopeOfRun = Annotated[Scope, At("run_file.evaluation.scope")]

# Data -----------------------------------------------------------------------------------------


class FetchJob(JobSettings, of="datasets.{dataset}"):
    """Settings of `fetch_dataset`."""

    dataset: DatasetName
    task: Task
    source: HubDataset | FileDataset | EmbeddedDataset
    fields: dict[str, TextField]
    labels: Labels | None
    id_column: str | None
    answer_column: str | None


def _samples(config: Config, part: str) -> int | tuple[int, int] | None:
    return places(part) or sample_limit(config, dataset_of(part))


class SampleJob(JobSettings):
    """Settings of `sample_dataset`."""

    dataset: DatasetName
    # How many, or the places of a shard; None: all.
    samples: Annotated[int | tuple[int, int] | None, At(_samples)]
    seed: Seed


def _label_words(config: Config, dataset: str) -> tuple[str, ...]:
    labels = config.datasets[dataset].labels
    return tuple(labels.words.values()) if labels else ()


def _reserved_tokens(config: Config, dataset: str) -> int:
    generated = config.run_file.generation.max_new_tokens
    return 1 if config.datasets[dataset].task == "classification" else generated


class PromptJob(JobSettings, of="datasets.{dataset}"):
    """Settings of `build_prompts`."""

    model: Loaded
    chat_template: Annotated[str, At("models.{model}.chat_template")]
    dataset: DatasetName
    messages: tuple[Message, ...]
    label_words: Annotated[tuple[str, ...], At(_label_words)]
    truncate: str | None
    max_tokens: Annotated[int | None, At("run_file.prompts.max_tokens")]
    reserved_tokens: Annotated[int, At(_reserved_tokens)]


# Models that a rule makes ---------------------------------------------------------------------


class TrainingTask(JobSettings, of="datasets.{dataset}"):
    """One embedded dataset as a tiny model learns it."""

    dataset: DatasetName
    generator: Annotated[str, At("datasets.{dataset}.source.task")]
    # Training must use other records.
    evaluation_seed: Annotated[int, At("datasets.{dataset}.source.seed")]
    messages: tuple[Message, ...]
    labels: Labels | None


def _tasks(config: Config, model: str) -> list[TrainingTask]:
    source = config.models[model].source
    assert isinstance(source, TrainedModel)
    return [TrainingTask.of(config, dataset=name) for name in source.datasets]


def _masked_tasks(config: Config, masked_model: str) -> list[TrainingTask]:
    source = config.masked_models[masked_model].source
    assert isinstance(source, UnigramMaskedModel)
    return [TrainingTask.of(config, dataset=name) for name in source.datasets]


class TrainJob(JobSettings):
    """Settings of `train_model`."""

    model: ModelName
    source: Annotated[TrainedModel, At("models.{model}.source")]
    tasks: Annotated[tuple[TrainingTask, ...], At(_tasks)]
    # Of the training records; else the model must be accurate.
    shuffled_labels: Annotated[bool, At(lambda variant: variant == SHUFFLED_LABELS)]


class MakeMaskedJob(JobSettings):
    """Settings of `make_masked_model`."""

    model: Annotated[str, At("masked_model")]
    source: Annotated[UnigramMaskedModel, At("masked_models.{masked_model}.source")]
    tasks: Annotated[tuple[TrainingTask, ...], At(_masked_tasks)]


class DequantiseJob(JobSettings, of="models.{model}"):
    """Settings of `dequantise_model`; the GGUF file is an input."""

    model: ModelName
    dtype: str


# Cells ----------------------------------------------------------------------------------------


class GenerateJob(JobSettings, of="run_file.generation"):
    """Settings of `generate`."""

    model: Loaded
    task: Annotated[Task, At("datasets.{dataset}.task")]
    max_new_tokens: int
    step_interval: int
    block_size: BlockSize
    token_budget: TokenBudget


class AttributeJob(JobSettings, of="evaluated_methods.{method}"):
    """Settings of `attribute`."""

    model: Annotated[LoadedModel, At(_explained)]
    masked_model: Annotated[LoadedModel | None, At(_masked)]  # None: the method needs none
    # Of the model, the last ones; None: it is as it was trained.
    reinitialised_layers: Annotated[int | None, At(_reinitialised_layers)]
    method: Annotated[str, At("evaluated_methods.{method}.file")]
    options: dict[str, Any]
    seed: Seed
    block_size: BlockSize
    token_budget: TokenBudget


class ImportJob(JobSettings):
    """Settings of `import_scores`; where the file lies changes no score."""

    model: ModelName
    dataset: DatasetName


class ConstructJob(JobSettings, of="evaluated_methods.{method}"):
    """Settings of `construct_scores`, besides the scores that are permuted."""

    source: Control | Permuted = Field(discriminator="kind")
    scope: ScopeOfRun
    seed: Seed


def draw_settings(config: Config) -> DrawSettings:
    """Return the part of the run's evaluation settings that its draws depend on."""
    part = config.run_file.evaluation.model_dump(include=set(DrawSettings.model_fields))
    return DrawSettings.model_validate(part)


def _draws(config: Config, operator: str) -> DrawSettings:
    settings = draw_settings(config)
    return settings.model_copy(update={"operator": operator or settings.operator})


class EvaluateJob(JobSettings, of="models.{model}"):
    """Settings of `evaluate_soft`."""

    model: Loaded
    compile: bool
    protocol: Annotated[Protocol, At("protocol")]
    evaluation: Annotated[DrawSettings, At(_draws)]  # with the operator of these draws
    seed: Seed
    block_size: BlockSize
    # Of the samples, in the dataset's order of sampling.
    first_place: Annotated[int, At(first_place)]
    token_budget: int | None  # None: by device


def _operators(config: Config, protocol: Protocol) -> tuple[Ablation, ...]:
    others = config.run_file.operators.others if config.run_file.operators else ()
    return allowed(protocol, (config.run_file.evaluation.operator, *others))


class InspectJob(JobSettings, of="run_file.evaluation"):
    """Settings of `inspect_inputs`."""

    model: Loaded
    protocol: Annotated[Protocol, At("protocol")]
    operators: Annotated[tuple[Ablation, ...], At(_operators)]
    scope: Scope
    pi_grid: tuple[float, ...]
    draws: Annotated[int, At("run_file.operators.draws")]
    seed: Seed
    token_budget: TokenBudget


def ranking_obstacle(entry: DatasetEntry) -> str | None:
    """Return why a dataset cannot be ranked by flips of the label word; None if it can."""
    return None if entry.task == "classification" else OPEN_GENERATION


def _obstacle(config: Config, dataset: str) -> str | None:
    return ranking_obstacle(config.datasets[dataset])


class RankingJob(JobSettings):
    """Settings of `evaluate_ranking`."""

    model: Loaded
    # Why the dataset cannot be ranked; None: it can.
    not_applicable: Annotated[str | None, At(_obstacle)]
    ranking: Annotated[RankingSettings, At("run_file.ranking")]
    scope: ScopeOfRun
    seed: Seed
    block_size: BlockSize
    token_budget: TokenBudget


def ranked_datasets(config: Config) -> tuple[str, ...]:
    """Return the datasets that insertion and deletion are computed on; none if switched off."""
    if config.run_file.ranking is None:
        return ()
    return tuple(name for name, entry in config.datasets.items() if ranking_obstacle(entry) is None)


def evidence_datasets(config: Config) -> tuple[str, ...]:
    """Return the datasets whose records have known evidence."""
    return tuple(name for name, entry in config.datasets.items() if entry.has_evidence)


# Summaries ------------------------------------------------------------------------------------


class RunJob(JobSettings, of="run_file"):
    """Settings of jobs that summarise all results of a run as they are."""

    run: str


class SummariseJob(JobSettings, of="run_file.evaluation"):
    """Settings of `summarise`."""

    minimum_h0: float
    clamp: Clamp


def _not_applicable(config: Config) -> dict[str, str]:
    obstacles = {name: ranking_obstacle(entry) for name, entry in config.datasets.items()}
    return {name: why for name, why in obstacles.items() if why is not None}


class SummariseRankingJob(JobSettings):
    """Settings of `summarise_ranking`."""

    # Datasets that cannot be ranked, and why.
    not_applicable: Annotated[dict[str, str], At(_not_applicable)]


class ResamplingJob(JobSettings):
    """Settings of `summarise_advantage`, `normalise_scores` and `summarise_off_distribution`."""

    seed: Seed
    resamples: Resamples


class UncertaintyJob(ResamplingJob):
    """Settings of `estimate_uncertainty`."""

    datasets: Annotated[tuple[str, ...], At(lambda config: list(config.datasets))]
    equivalence_margin: EquivalenceMargin


class MetricValidationJob(JobSettings, of="run_file.metric_validation"):
    """Settings of `validate_metrics`; the run must validate its metrics."""

    ladder: tuple[str, ...]  # controls from no noise to the most
    middle: str  # the one of them that stands for noisy scores
    seed: Seed


def _variants(config: Config) -> dict[str, dict[str, int | None]]:
    of_models = config.studies["sanity_checks"].variants or {}
    return {
        model: {name: config.variants[name].reinitialised_layers for name in names}
        for model, names in of_models.items()
    }


class SanityChecksJob(ScoreSettings, ResamplingJob, of="run_file.evaluation"):
    """Settings of `check_sanity`."""

    # By model and variant, how many of its layers are reinitialised; None: it was trained on
    # shuffled labels.
    variants: Annotated[dict[str, dict[str, int | None]], At(_variants)]


def _permuted(config: Config) -> dict[str, str]:
    sources = {name: method.source for name, method in config.permuted.items()}
    return {name: of.method for name, of in sources.items() if isinstance(of, Permuted)}


class PermutedJob(ResamplingJob):
    """Settings of `estimate_permutation_baseline`."""

    permuted: Annotated[dict[str, str], At(_permuted)]  # the method that each is of


class SensitivityJob(ResamplingJob, SummariseJob):
    """Settings of `summarise_sensitivity`."""


class DensityJob(ScoreSettings, ResamplingJob, of="run_file.evaluation"):
    """Settings of `summarise_density`."""


class EvidenceJob(ScoreSettings, JobSettings, of="run_file.evaluation"):
    """Settings of `summarise_evidence`."""


class DatamodelJob(DrawSettings, JobSettings, of="run_file.evaluation"):
    """Settings of `summarise_datamodel_scores`."""

    seed: Seed  # of the masks


def _depths(config: Config) -> list[StudyDepth]:
    return [StudyDepth(**m.model_dump(exclude={"method"})) for m in config.study_methods]


class LayerStudyJob(SummariseJob):
    """Settings of `summarise_layer_study`; there must be a layer study."""

    methods: Annotated[tuple[StudyDepth, ...], At(_depths)]
    development_share: Annotated[float, At("run_file.layer_study.development_share")]
    seed: Seed


class CompareJob(ScoreSettings, JobSettings, of="run_file.evaluation"):
    """Settings of `compare_methods`."""

    # That explain the model.
    methods: Annotated[tuple[str, ...], At(lambda config, model: config.methods_of(model))]


# Tables and figures ---------------------------------------------------------------------------


def selected_labels(config: Config, model: str | None = None) -> dict[str, str]:
    """Return the labels of Grad-ELLM at selected depths, of a model or of all; may be none."""
    study = config.run_file.layer_study
    if study is None or model not in {None, *(method.model for method in config.study_methods)}:
        return {}
    return {SELECTED_METHODS[weights]: SELECTED_LABELS[weights] for weights in study.token_weights}


def _method_labels(config: Config) -> dict[str, str]:
    return {name: m.label for name, m in config.methods.items()} | selected_labels(config)


class LabelSettings(JobSettings):
    """Settings of all that readers see: names in order, with their labels."""

    sorts_keys = False  # tables and legends follow the order of selection

    models: Annotated[dict[str, str], At("models.*.label")]
    datasets: Annotated[dict[str, str], At("datasets.*.label")]
    methods: Annotated[dict[str, str], At(_method_labels)]

    def where(self, cell: Mapping[str, str]) -> str:
        """Return in words which part of the run is shown, for titles.

        Args:
            cell: the model, dataset and protocol, those of them that one part is of.
        """
        labels = [
            getattr(self, f"{key}s")[cell[key]] for key in ("model", "dataset") if key in cell
        ]
        routing = [f"{cell['protocol']} routing"] if "protocol" in cell else []
        return " · ".join([*labels, *routing])


def _families(config: Config) -> dict[str, str]:
    selected = selected_labels(config)
    families = {name: method.family for name, method in config.methods.items()}
    return families | {n: study.method.family for study in config.study_methods for n in selected}


def _number_types(config: Config) -> dict[str, str]:
    """Return the number type of each model's weights and activations in words."""
    return {
        name: entry.dtype + ("" if entry.quantization == "none" else f", {entry.quantization}")
        for name, entry in config.models.items()
    }


NumberTypes = Annotated[dict[str, str], At(_number_types)]  # which the noise floor depends on


def _shards(config: Config, model: str) -> dict[str, Shards | None]:
    return {dataset: shards(config, model, dataset) for dataset in config.datasets_of(model)}


class DisplayJob(ScoreSettings, LabelSettings, of="run_file.evaluation"):
    """Settings of all tables and figures."""

    # Of each model, its methods; selections among depths are none of them.
    methods_of: Annotated[
        dict[str, tuple[str, ...]],
        At(lambda config: {name: config.methods_of(name) for name in config.models}),
    ]
    # Of each method, whose rows a reader may have together.
    families: Annotated[dict[str, str], At(_families)]
    # Methods of family `baseline`, whose speed is no achievement.
    baselines: Annotated[
        tuple[str, ...],
        At(lambda config: [n for n, m in config.methods.items() if m.family == "baseline"]),
    ]
    # Whose scores were made elsewhere, which have no time.
    imported: Annotated[tuple[str, ...], At(lambda config: list(config.imported_methods))]
    controls: Annotated[dict[str, str], At("controls.*.label")]  # of the metrics' own test
    types: NumberTypes
    clamp: Clamp  # where Soft-NS is clamped at 0
    score_floor: float  # scores are clipped to [floor, 1 - floor] to calibrate
    equivalence_margin: EquivalenceMargin
    # Of the tokens that have scores; None: no figures of single texts.
    top_share: Annotated[float | None, At("run_file.qualitative.top_share")]
    # By model, how each of its datasets is cut into shards; None: it is not.
    shards: Annotated[
        dict[str, dict[str, Shards | None]],
        At(lambda config: {name: _shards(config, name) for name in config.models}),
    ]

    def methods_on(self, model: str) -> dict[str, str]:
        """Return the labels of a model's methods."""
        return {name: self.methods[name] for name in self.methods_of[model]}

    def datasets_on(self, model: str) -> dict[str, str]:
        """Return the labels of a model's datasets."""
        return {name: label for name, label in self.datasets.items() if name in self.shards[model]}

    def every(self, cell: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the names of the methods and datasets of a cell, or of its model if it has one."""
        if "model" not in cell:
            return {"dataset": tuple(self.datasets)}
        model = cell["model"]
        return {"dataset": tuple(self.datasets_on(model)), "method": self.methods_of[model]}


# Pages ----------------------------------------------------------------------------------------

# What an entry is whose source is of this kind; one of kind `hub` may be the published one.
OTHER_SOURCES = {
    "local": "weights in a local folder",
    "gguf": "weights in a GGUF file",
    "trained": "trained by the workflow",
    "file": "records in a local file",
    "embedded": "records made by the workflow",
}
# Entries of the catalogue with other records than the paper's, though the hub has them, ...
OTHER_RECORDS = {
    "sst2_glue": "phrases of GLUE, where the paper has sentences",
    "boolq": "the original release, where the paper has ERASER's",
}
# ... and one with the paper's, which are on no hub.
PUBLISHED_FILES = ("boolq_eraser",)


class IndexJob(LabelSettings, of="run_file"):
    """Settings of the front page."""

    run: str


def _not_published(
    entries: Mapping[str, ModelEntry | DatasetEntry], additions: Collection[str]
) -> dict[str, str]:
    """Return what those entries are that the catalogue does not have from the hub."""
    origins = {name: OTHER_SOURCES.get(entry.source.kind) for name, entry in entries.items()}
    added = dict.fromkeys(additions, "an entry of the run file")
    all_origins = {name: origin or added.get(name) for name, origin in origins.items()}
    return {name: origin for name, origin in all_origins.items() if origin is not None}


def _other_models(config: Config) -> dict[str, str]:
    return _not_published(config.models, config.run_file.catalogue.models)


def _other_datasets(config: Config) -> dict[str, str]:
    entries = {n: entry for n, entry in config.datasets.items() if n not in PUBLISHED_FILES}
    other = {name: why for name, why in OTHER_RECORDS.items() if name in config.datasets}
    return _not_published(entries, config.run_file.catalogue.datasets) | other


class PublishedJob(JobSettings, of="run_file"):
    """Settings of the comparison with the paper: what is not as published.

    A model or a dataset is the published one if it is the catalogue's entry and comes from the hub;
    of datasets :data:`OTHER_RECORDS` are none, and :data:`PUBLISHED_FILES` are some.
    """

    models: Annotated[dict[str, str], At("models.*.label")]
    datasets: Annotated[dict[str, str], At("datasets.*.label")]
    other_models: Annotated[dict[str, str], At(_other_models)]  # what those are
    other_datasets: Annotated[dict[str, str], At(_other_datasets)]
    types: NumberTypes
    # Of each method, with defaults.
    options: Annotated[dict[str, dict[str, Any]], At("methods.*.resolved")]
    masked_model: str
    generation: GenerationSettings
    evaluation: EvaluationSettings
    ranking: RankingSettings | None


class ExplorerJob(ScoreSettings, LabelSettings, of="run_file.evaluation"):
    """Settings of `build_explorer`; the run must have an explorer."""

    run: Annotated[str, At("run_file.run")]
    samples: Annotated[int, At("run_file.explorer.samples")]  # of each model and dataset
    score_floor: float
    pi_grid: tuple[float, ...]


# The hub --------------------------------------------------------------------------------------

Kind = Literal["models", "datasets"]


class ResolveJob(JobSettings):
    """Settings of `resolve_commit`."""

    kind: Annotated[Kind, At("kind")]
    repository: Annotated[str, At("repository")]
    revision: Annotated[str, At("revision")]


def hub_models(config: Config) -> list[HubModel]:
    """Return the models that a run loads from the hub, each revision of a repository once.

    Its masked model is one of them if a method needs it.
    """
    needed = any(method.needs_masked_model for method in config.evaluated_methods.values())
    entries = [*config.models.values(), *(config.masked_models.values() if needed else ())]
    sources = [entry.source for entry in entries if isinstance(entry.source, HubModel)]
    return list({(source.repository, source.revision): source for source in sources}.values())


class FetchHubJob(JobSettings):
    """Settings of `fetch_hub`."""

    models: Annotated[  # repository and revision
        tuple[tuple[str, str], ...],
        At(lambda config: [(m.repository, m.revision) for m in hub_models(config)]),
    ]


def hub_datasets(config: Config) -> dict[str, HubDataset]:
    """Return the datasets that a run reads from the hub, by name."""
    sources = {name: entry.source for name, entry in config.datasets.items()}
    return {name: source for name, source in sources.items() if isinstance(source, HubDataset)}


def commit_file(data: Path, source: HubModel | HubDataset) -> Path:
    """Return where a source's commit is recorded: once for all entries of one revision.

    Args:
        data: the run's folder of data.
        source: what is read of the hub.
    """
    kind: Kind = "models" if isinstance(source, HubModel) else "datasets"
    return data / "commits" / kind / source.repository / f"{source.revision}.json"


# The settings of every job by the name that rules give them: `LayerStudyJob` is `layer_study`.
JOBS: dict[str, type[JobSettings]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Job")).lower(): settings
    for name, settings in list(globals().items())
    if name.endswith("Job")
}
