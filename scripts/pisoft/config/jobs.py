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
import itertools
import json
import re
from collections.abc import Callable, Mapping
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
from pisoft.config.layer_study import StudyDepth
from pisoft.config.models import (
    HubModel,
    MaskedModelEntry,
    ModelEntry,
    TrainedModel,
    UnigramMaskedModel,
)
from pisoft.config.resolved import Config
from pisoft.config.run_file import GenerationSettings, PromptSettings
from pisoft.config.shards import Shards, dataset_of, first_place, places, sample_limit, shards
from pisoft.config.studies import SELECTED_LABELS, SELECTED_METHODS, Control, Permuted, allowed
from pisoft.errors import BenchmarkError


@dataclass(frozen=True)
class At:
    """Where a field's value stands, `models.{model}.dtype` or `{model}`, or what makes it.

    A function takes the configuration, if it wants it, and wildcards, by their names.
    """

    place: str | Callable[..., Any]

    @cached_property
    def wildcards(self) -> tuple[str, ...]:
        """The wildcards that the value depends on, and `config`."""
        if callable(self.place):
            return tuple(inspect.signature(self.place).parameters)
        return tuple(re.findall(r"{(\w+)}", self.place))

    def value(self, context: Mapping[str, Any]) -> Any:
        """Return the value; None of a section that is switched off."""
        if callable(self.place):
            return self.place(**{name: context[name] for name in self.wildcards})
        if self.place.startswith("{"):
            return self.place.format_map(context)
        return _follow(context["config"], self.place.split("."), context)


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
    below: ClassVar[str | None] = None  # where fields without a place stand

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
        fields = cls.model_fields
        below = {} if cls.below is None else {name: At(f"{cls.below}.{name}") for name in fields}
        marks = ((name, mark) for name, field in fields.items() for mark in field.metadata)
        return below | {name: mark for name, mark in marks if isinstance(mark, At)}

    @classmethod
    def of(cls, config: Config, **wildcards: str) -> Self:
        """Return what a job with these wildcards depends on.

        Raises:
            BenchmarkError: the run file switches it off.
        """
        context = {"config": config, "operator": "", "variant": "", **wildcards}
        values = {name: place.value(context) for name, place in cls.places().items()}
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
        return text.translate({ord(character): f"\\u{ord(character):04x}" for character in "<>&"})


# Loaded models --------------------------------------------------------------------------------


class LoadedModel(JobSettings):
    """What identifies a loaded model; weights of local and trained models are input files."""

    name: str
    repository: str | None = None  # None: the weights lie in the folder given to the script
    revision: str | None = None
    dtype: str
    quantization: str = "none"
    device: str


def loaded_model(name: str, entry: ModelEntry | MaskedModelEntry) -> LoadedModel:
    """Return what identifies a loaded model."""
    of_entry = entry.model_dump(include={"dtype", "quantization", "device"})
    of_source = entry.source.model_dump(include={"repository", "revision"})
    return LoadedModel(name=name, **of_entry, **of_source)


def _loaded(config: Config, model: str, variant: str) -> LoadedModel:
    name = f"{model}-{variant}" if variant == SHUFFLED_LABELS else model
    return loaded_model(name, config.models[model])


def _masked(config: Config, method: str) -> LoadedModel | None:
    if not config.evaluated_methods[method].needs_masked_model:
        return None
    name = config.run_file.masked_model
    return loaded_model(name, config.masked_models[name])


Loaded = Annotated[LoadedModel, At(_loaded)]
DatasetName = Annotated[str, At("{dataset}")]
ModelName = Annotated[str, At("{model}")]
Seed = Annotated[int, At("run_file.seed")]
BlockSize = Annotated[int, At("run_file.block_size")]
TokenBudget = Annotated[int | None, At("models.{model}.token_budget")]  # None: by device
Resamples = Annotated[int, At("run_file.statistics.resamples")]
# None: equivalence is not tested.
EquivalenceMargin = Annotated[float | None, At("run_file.statistics.equivalence_margin")]
ScopeOfRun = Annotated[Scope, At("run_file.evaluation.scope")]
Kind = Literal["models", "datasets"]  # of what is on the hub

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


class SampleJob(JobSettings):
    """Settings of `sample_dataset`."""

    dataset: Annotated[str, At(dataset_of)]
    # How many, or the places of a shard; None: all.
    samples: Annotated[
        int | tuple[int, int] | None,
        At(lambda config, part: places(part) or sample_limit(config, dataset_of(part))),
    ]
    seed: Seed


def _reserved_tokens(config: Config, dataset: str) -> int:
    generated = config.run_file.generation.max_new_tokens
    return 1 if config.datasets[dataset].task == "classification" else generated


class PromptJob(JobSettings, of="datasets.{dataset}"):
    """Settings of `build_prompts`."""

    model: Loaded
    chat_template: Annotated[str, At("models.{model}.chat_template")]
    dataset: DatasetName
    messages: tuple[Message, ...]
    label_words: tuple[str, ...]
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


def _tasks(config: Config, entry: Any) -> list[TrainingTask]:
    return [TrainingTask.of(config, dataset=name) for name in entry.source.datasets]


class TrainJob(JobSettings):
    """Settings of `train_model`."""

    model: ModelName
    source: Annotated[TrainedModel, At("models.{model}.source")]
    tasks: Annotated[
        tuple[TrainingTask, ...], At(lambda config, model: _tasks(config, config.models[model]))
    ]
    # Of the training records; else the model must be accurate.
    shuffled_labels: Annotated[bool, At(lambda variant: variant == SHUFFLED_LABELS)]


class MakeMaskedJob(JobSettings):
    """Settings of `make_masked_model`."""

    model: Annotated[str, At("{masked_model}")]
    source: Annotated[UnigramMaskedModel, At("masked_models.{masked_model}.source")]
    tasks: Annotated[
        tuple[TrainingTask, ...],
        At(lambda config, masked_model: _tasks(config, config.masked_models[masked_model])),
    ]


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


class CellSettings(JobSettings):
    """Settings of jobs that go through the blocks of a cell with a model."""

    model: Loaded
    seed: Seed
    block_size: BlockSize
    token_budget: TokenBudget


class AttributeJob(CellSettings, of="evaluated_methods.{method}"):
    """Settings of `attribute`."""

    masked_model: Annotated[LoadedModel | None, At(_masked)]  # None: the method needs none
    # Of the model, the last ones; None: it is as it was trained.
    reinitialised_layers: Annotated[
        int | None, At(lambda config, variant: config.variants.get(variant))
    ]
    method: Annotated[str, At("evaluated_methods.{method}.file")]
    options: dict[str, Any]


class ImportJob(JobSettings):
    """Settings of `import_scores`; where the file lies changes no score."""

    model: ModelName
    dataset: DatasetName


class ConstructJob(JobSettings, of="evaluated_methods.{method}"):
    """Settings of `construct_scores`, besides the scores that are permuted."""

    source: Control | Permuted = Field(discriminator="kind")
    scope: ScopeOfRun
    seed: Seed


def _draws(config: Config, operator: str) -> DrawSettings:
    """Return the part of the run's evaluation settings that its draws depend on."""
    evaluation = config.run_file.evaluation
    part = evaluation.model_dump(include=set(DrawSettings.model_fields))
    return DrawSettings(**part | {"operator": operator or evaluation.operator})


class EvaluateJob(CellSettings):
    """Settings of `evaluate_soft`."""

    compile: Annotated[bool, At("models.{model}.compile")]
    protocol: Annotated[Protocol, At("{protocol}")]
    evaluation: Annotated[DrawSettings, At(_draws)]  # with the operator of these draws
    # Of the samples, in the dataset's order of sampling.
    first_place: Annotated[int, At(first_place)]


def _operators(config: Config, protocol: Protocol) -> tuple[Ablation, ...]:
    others = config.run_file.operators.others if config.run_file.operators else ()
    return allowed(protocol, (config.run_file.evaluation.operator, *others))


class InspectJob(JobSettings, of="run_file.evaluation"):
    """Settings of `inspect_inputs`."""

    model: Loaded
    protocol: Annotated[Protocol, At("{protocol}")]
    operators: Annotated[tuple[Ablation, ...], At(_operators)]
    scope: Scope
    pi_grid: tuple[float, ...]
    draws: Annotated[int, At("run_file.operators.draws")]
    seed: Seed
    token_budget: TokenBudget


class RankingJob(CellSettings):
    """Settings of `evaluate_ranking`."""

    # Why the dataset cannot be ranked; None: it can.
    not_applicable: Annotated[str | None, At("datasets.{dataset}.ranking_obstacle")]
    ranking: Annotated[RankingSettings, At("run_file.ranking")]
    scope: ScopeOfRun


def ranked_datasets(config: Config) -> tuple[str, ...]:
    """Return the datasets that insertion and deletion are computed on; none if switched off."""
    if config.run_file.ranking is None:
        return ()
    return tuple(name for name, entry in config.datasets.items() if not entry.ranking_obstacle)


# Summaries ------------------------------------------------------------------------------------


class RunJob(JobSettings, of="run_file"):
    """Settings of jobs that summarise all results of a run as they are."""

    run: str


class SummariseJob(JobSettings, of="run_file.evaluation"):
    """Settings of `summarise`."""

    minimum_h0: float
    clamp: Clamp


def _not_applicable(config: Config) -> dict[str, str]:
    obstacles = {name: entry.ranking_obstacle for name, entry in config.datasets.items()}
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
        model: {name: config.variants[name] for name in names} for model, names in of_models.items()
    }


class SanityChecksJob(ScoreSettings, ResamplingJob, of="run_file.evaluation"):
    """Settings of `check_sanity`."""

    # By model and variant, how many of its layers are reinitialised; None: it was trained on
    # shuffled labels.
    variants: Annotated[dict[str, dict[str, int | None]], At(_variants)]


def _permuted(config: Config) -> dict[str, str]:
    sources = config.constructed_methods
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


class LayerStudyJob(SummariseJob):
    """Settings of `summarise_layer_study`; there must be a layer study."""

    methods: Annotated[
        tuple[StudyDepth, ...],
        At(lambda config: itertools.chain.from_iterable(config.study_depths.values())),
    ]
    development_share: Annotated[float, At("run_file.layer_study.development_share")]
    seed: Seed


class CompareJob(ScoreSettings, JobSettings, of="run_file.evaluation"):
    """Settings of `compare_methods`."""

    # That explain the model.
    methods: Annotated[tuple[str, ...], At(lambda config, model: config.methods_of(model))]


# Tables and figures ---------------------------------------------------------------------------


def _selected_labels(config: Config) -> dict[str, str]:
    """Return the labels of Grad-ELLM at selected depths; may be none."""
    study = config.run_file.layer_study
    weights = study.token_weights if study else ()
    return {SELECTED_METHODS[weight]: SELECTED_LABELS[weight] for weight in weights}


def _method_labels(config: Config) -> dict[str, str]:
    return {name: m.label for name, m in config.methods.items()} | _selected_labels(config)


class LabelSettings(JobSettings):
    """Settings of all that readers see: names in order, with their labels."""

    sorts_keys = False  # tables and legends follow the order of selection

    models: Annotated[dict[str, str], At("models.*.label")]
    datasets: Annotated[dict[str, str], At("datasets.*.label")]
    methods: Annotated[dict[str, str], At(_method_labels)]

    def where(self, cell: Mapping[str, str]) -> str:
        """Return in words, for titles, which model, dataset and protocol a cell is of, if any."""
        labels = [
            getattr(self, f"{key}s")[cell[key]] for key in ("model", "dataset") if key in cell
        ]
        routing = [f"{cell['protocol']} routing"] if "protocol" in cell else []
        return " · ".join([*labels, *routing])


def _families(config: Config) -> dict[str, str]:
    families = {name: method.family for name, method in config.methods.items()}
    return families | dict.fromkeys(_selected_labels(config), "gradient")


def _control_labels(config: Config) -> dict[str, str]:
    methods = config.study_methods.items()
    return {name: method.label for name, method in methods if isinstance(method.source, Control)}


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
    controls: Annotated[dict[str, str], At(_control_labels)]  # of the metrics' own test
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


def _not_published(config: Config, kind: Kind) -> dict[str, str]:
    """Return what those models or datasets are that the catalogue does not have from the hub."""
    entries: Mapping[str, ModelEntry | DatasetEntry] = getattr(config, kind)
    added = dict.fromkeys(getattr(config.run_file.catalogue, kind), "an entry of the run file")
    sources = {name: OTHER_SOURCES.get(entry.source.kind) for name, entry in entries.items()}
    origins = {name: source or added.get(name) for name, source in sources.items()}
    return {name: origin for name, origin in origins.items() if origin is not None}


def _other_datasets(config: Config) -> dict[str, str]:
    other = {name: why for name, why in OTHER_RECORDS.items() if name in config.datasets}
    other = _not_published(config, "datasets") | other
    return {name: why for name, why in other.items() if name not in PUBLISHED_FILES}


class PublishedJob(JobSettings, of="run_file"):
    """Settings of the comparison with the paper: what is not as published.

    A model or a dataset is the published one if it is the catalogue's entry and comes from the hub;
    of datasets :data:`OTHER_RECORDS` are none, and :data:`PUBLISHED_FILES` are some.
    """

    models: Annotated[dict[str, str], At("models.*.label")]
    datasets: Annotated[dict[str, str], At("datasets.*.label")]
    # What those are that are not the published ones.
    other_models: Annotated[dict[str, str], At(lambda config: _not_published(config, "models"))]
    other_datasets: Annotated[dict[str, str], At(_other_datasets)]
    types: NumberTypes
    # Of each method, with defaults.
    options: Annotated[dict[str, dict[str, Any]], At("methods.*.resolved")]
    masked_model: str
    prompts: PromptSettings
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


class ResolveJob(JobSettings):
    """Settings of `resolve_commit`."""

    kind: Annotated[Kind, At("{kind}")]
    repository: Annotated[str, At("{repository}")]
    revision: Annotated[str, At("{revision}")]


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
    """Return where a source's commit lies in a run's data: once for all entries of a revision."""
    kind: Kind = "models" if isinstance(source, HubModel) else "datasets"
    return data / "commits" / kind / source.repository / f"{source.revision}.json"


# The settings of every job by the name that rules give them: `LayerStudyJob` is `layer_study`.
JOBS: dict[str, type[JobSettings]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Job")).lower(): settings
    for name, settings in list(globals().items())
    if name.endswith("Job")
}
