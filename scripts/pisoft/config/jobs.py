"""The settings of each job: what it depends on of the configuration, and nothing else.

A rule passes them to its script as JSON. Snakemake re-runs a job when they change, so
labels, resources and entries of other methods must not be part of it.

A field's value stands below the place that the class names by `of`, under the field's own name; or
where the field names it by :class:`At`; else it is the field's default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pisoft.config.base import Ablation, Clamp, Protocol, Scope, ScoresOf, Target, Task
from pisoft.config.cells import SHUFFLED_LABELS, StudyDepth
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
from pisoft.config.methods import Method, ScoresFile
from pisoft.config.models import (
    HubModel,
    MaskedModelEntry,
    ModelEntry,
    TrainedModel,
    UnigramMaskedModel,
)
from pisoft.config.resolved import Config
from pisoft.config.run_file import GenerationSettings, PromptSettings
from pisoft.config.settings import At, JobSettings
from pisoft.config.shards import Shards, dataset_of, first_place, places, sample_limit, shards
from pisoft.config.studies import (
    RANDOM,
    SELECTED_LABELS,
    SELECTED_METHODS,
    Control,
    Permuted,
    allowed,
)

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
ProtocolName = Annotated[Protocol, At("{protocol}")]
Seed = Annotated[int, At("run_file.seed")]
BlockSize = Annotated[int, At("run_file.block_size")]
TokenBudget = Annotated[int | None, At("models.{model}.token_budget")]  # None: by device
# None: equivalence is not tested.
EquivalenceMargin = Annotated[float | None, At("run_file.statistics.equivalence_margin")]
# What scores explain: the preferred label word, or the generated token.
TargetOfMethod = Annotated[
    Target, At(lambda config, method, dataset: config.target(method, dataset))
]
ScopeOfRun = Annotated[Scope, At("run_file.evaluation.scope")]
ModelLabels = Annotated[dict[str, str], At("models.*.label")]
DatasetLabels = Annotated[dict[str, str], At("datasets.*.label")]
# Of weights and activations, which the noise floor depends on.
NumberTypes = Annotated[dict[str, str], At("models.*.number_type")]
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
    max_words: int | None = None
    cluster_column: str | None = None


def _samples(config: Config, part: str) -> tuple[int, int] | int | None:
    return places(part) or sample_limit(config, dataset_of(part))


class SampleJob(JobSettings):
    """Settings of `sample_dataset`."""

    dataset: Annotated[str, At(dataset_of)]
    # How many, or the places of a shard; None: all.
    samples: Annotated[int | tuple[int, int] | None, At(_samples)]
    seed: Seed


def _reserved_tokens(config: Config, dataset: str) -> int:
    is_label = config.datasets[dataset].task == "classification"
    return 1 if is_label else config.run_file.generation.max_new_tokens


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


def _tasks(config: Config, model: str) -> list[TrainingTask]:
    entries: dict[str, Any] = {**config.masked_models, **config.models}
    return [TrainingTask.of(config, dataset=name) for name in entries[model].source.datasets]


class TrainJob(JobSettings):
    """Settings of `train_model`."""

    model: ModelName
    source: Annotated[TrainedModel, At("models.{model}.source")]
    tasks: Annotated[tuple[TrainingTask, ...], At(_tasks)]
    # Of the training records; else the model must be accurate.
    shuffled_labels: Annotated[bool, At(lambda variant: variant == SHUFFLED_LABELS)]


class MakeMaskedJob(JobSettings):
    """Settings of `make_masked_model`."""

    model: Annotated[str, At("{masked_model}")]
    source: Annotated[UnigramMaskedModel, At("masked_models.{masked_model}.source")]
    tasks: Annotated[
        tuple[TrainingTask, ...], At(lambda config, masked_model: _tasks(config, masked_model))
    ]


class DequantiseJob(JobSettings, of="models.{model}"):
    """Settings of `dequantise_model`; the GGUF file is an input."""

    model: ModelName
    dtype: str


# Cells ----------------------------------------------------------------------------------------


class GenerateJob(GenerationSettings, JobSettings, of="run_file.generation"):
    """Settings of `generate`."""

    model: Loaded
    task: Annotated[Task, At("datasets.{dataset}.task")]
    block_size: BlockSize
    token_budget: TokenBudget


class CellSettings(JobSettings):
    """Settings of jobs that go through the blocks of a cell with a model."""

    model: Loaded
    seed: Seed
    block_size: BlockSize
    token_budget: TokenBudget


def _reinitialised_layers(config: Config, model: str, variant: str) -> int | None:
    variants = config.studies["sanity_checks"].variants if variant else None
    return variants[model][variant] if variants else None


def _step_scores(config: Config, method: str) -> ScoresOf | None:
    is_random = config.evaluated_methods[method].file == RANDOM
    return config.run_file.evaluation.step_scores if is_random else None


class AttributeJob(CellSettings, of="evaluated_methods.{method}"):
    """Settings of `attribute`."""

    masked_model: Annotated[LoadedModel | None, At(_masked)]  # None: the method needs none
    # Of the model, the last ones; None: it is as it was trained.
    reinitialised_layers: Annotated[int | None, At(_reinitialised_layers)]
    target: TargetOfMethod
    # What random scores are drawn for: each step, or the sample; None: other methods.
    step_scores: Annotated[ScoresOf | None, At(_step_scores)]
    method: Annotated[str, At("evaluated_methods.{method}.file")]
    options: dict[str, Any]


class ExportJob(JobSettings, of="run_file"):
    """Settings of `export_prompts`."""

    target: Target


class ImportJob(JobSettings):
    """Settings of `import_scores`; where the file lies changes no score."""

    model: ModelName
    dataset: DatasetName
    target: TargetOfMethod


class ConstructJob(JobSettings, of="evaluated_methods.{method}"):
    """Settings of `construct_scores`, besides the scores that are permuted."""

    source: Control | Permuted = Field(discriminator="kind")
    scope: ScopeOfRun
    # What noise is drawn for: each step, or the sample.
    step_scores: Annotated[ScoresOf, At("run_file.evaluation.step_scores")]
    seed: Seed


def _draws(config: Config, operator: str) -> DrawSettings:
    """Return the part of the run's evaluation settings that its draws depend on."""
    evaluation = config.run_file.evaluation
    part = evaluation.model_dump(include=set(DrawSettings.model_fields))
    return DrawSettings(**part | {"operator": operator or evaluation.operator})


class EvaluateJob(CellSettings):
    """Settings of `evaluate_soft`."""

    compile: Annotated[bool, At("models.{model}.compile")]
    protocol: ProtocolName
    evaluation: Annotated[DrawSettings, At(_draws)]  # with the operator of these draws
    target: TargetOfMethod  # whose log-probability is measured
    # Of the samples, in the dataset's order of sampling.
    first_place: Annotated[int, At(first_place)]


def _operators(config: Config, protocol: Protocol) -> tuple[Ablation, ...]:
    others = config.run_file.operators.others if config.run_file.operators else ()
    return allowed(protocol, (config.run_file.evaluation.operator, *others))


class InspectJob(JobSettings, of="run_file.evaluation"):
    """Settings of `inspect_inputs`."""

    model: Loaded
    protocol: ProtocolName
    operators: Annotated[tuple[Ablation, ...], At(_operators)]
    step_interval: int | None
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


class SummariseRankingJob(JobSettings):
    """Settings of `summarise_ranking`."""

    # Datasets that cannot be ranked, and why.
    not_applicable: Annotated[dict[str, str], At("datasets.*.ranking_obstacle")]


class EvidenceJob(ScoreSettings, JobSettings, of="run_file.evaluation"):
    """Settings of `summarise_evidence`."""


def _other_targets(config: Config) -> dict[str, list[str]]:
    def differs(method: str, dataset: str) -> bool:
        return config.target(method, dataset) != config.target(RANDOM, dataset)

    names = config.methods if RANDOM in config.methods else ()
    return {one: [n for n in names if differs(n, one)] for one in config.datasets}


class DatamodelJob(DrawSettings, JobSettings, of="run_file.evaluation"):
    """Settings of `summarise_datamodel_scores`."""

    seed: Seed  # of the masks
    # By dataset, methods that explain another token than random scores do.
    other_targets: Annotated[dict[str, tuple[str, ...]], At(_other_targets)]


class CompareJob(EvidenceJob):
    """Settings of `compare_methods`."""

    # That explain the model.
    methods: Annotated[tuple[str, ...], At(lambda config, model: config.methods_of(model))]


class LayerStudyJob(SummariseJob):
    """Settings of `summarise_layer_study`; there must be a layer study."""

    development_share: Annotated[float, At("run_file.layer_study.development_share")]
    methods: Annotated[tuple[StudyDepth, ...], At("studies.layer_study.depths")]
    seed: Seed


class MetricValidationJob(JobSettings, of="run_file.metric_validation"):
    """Settings of `validate_metrics`; the run must validate its metrics."""

    ladder: tuple[str, ...]  # controls from no noise to the most
    middle: str  # the one of them that stands for noisy scores
    seed: Seed


class ResamplingJob(JobSettings):
    """Settings of `summarise_advantage`, `normalise_scores` and `summarise_off_distribution`."""

    seed: Seed
    resamples: Annotated[int, At("run_file.statistics.resamples")]


class SensitivityJob(ResamplingJob, SummariseJob):
    """Settings of `summarise_sensitivity`."""


class DensityJob(ScoreSettings, ResamplingJob, of="run_file.evaluation"):
    """Settings of `summarise_density`."""


class SanityChecksJob(DensityJob):
    """Settings of `check_sanity`."""

    # By model and variant, how many of its layers are reinitialised; None: it was trained on
    # shuffled labels.
    variants: Annotated[dict[str, dict[str, int | None]], At("studies.sanity_checks.variants")]


class UncertaintyJob(ResamplingJob):
    """Settings of `estimate_uncertainty`."""

    datasets: Annotated[tuple[str, ...], At(lambda config: list(config.datasets))]
    equivalence_margin: EquivalenceMargin


def _permuted(config: Config) -> dict[str, str]:
    return {name: source.method for name, source in config.sources(Permuted).items()}


class PermutedJob(ResamplingJob):
    """Settings of `estimate_permutation_baseline`."""

    permuted: Annotated[dict[str, str], At(_permuted)]  # the method that each is of


# Tables and figures ---------------------------------------------------------------------------


def _displayed(key: Literal["label", "family"]) -> At:
    """Return where a field stands that has this of every method, and of selected depths."""

    def of_methods(config: Config) -> dict[str, str]:
        study = config.run_file.layer_study
        selected = {
            SELECTED_METHODS[weights]: Method(label=SELECTED_LABELS[weights], family="gradient")
            for weights in (study.token_weights if study else ())
        }
        return {name: getattr(one, key) for name, one in {**config.methods, **selected}.items()}

    return At(of_methods)


class LabelSettings(JobSettings):
    """Settings of all that readers see: names in order, with their labels."""

    sorts_keys = False  # tables and legends follow the order of selection

    models: ModelLabels
    datasets: DatasetLabels
    methods: Annotated[dict[str, str], _displayed("label")]

    def where(self, cell: Mapping[str, str]) -> str:
        """Return in words, for titles, which model, dataset and protocol a cell is of, if any."""
        labels = [
            getattr(self, f"{key}s")[cell[key]] for key in ("model", "dataset") if key in cell
        ]
        routing = [f"{cell['protocol']} routing"] if "protocol" in cell else []
        return " · ".join([*labels, *routing])


def _controls(config: Config) -> dict[str, str]:
    study = config.studies.get("controls")
    return {name: method.label for name, method in study.added.items()} if study else {}


def _shards(config: Config) -> dict[str, dict[str, Shards | None]]:
    return {
        model: {dataset: shards(config, model, dataset) for dataset in config.datasets_of(model)}
        for model in config.models
    }


def _targets(config: Config) -> dict[str, tuple[Target, ...]]:
    return {
        dataset: tuple(dict.fromkeys(config.target(name, dataset) for name in config.methods))
        for dataset in config.datasets
    }


Targets = Annotated[dict[str, tuple[Target, ...]], At(_targets)]  # of any method, by dataset


class DisplayJob(ScoreSettings, LabelSettings, of="run_file.evaluation"):
    """Settings of all tables and figures."""

    # Of each model, its methods; selections among depths are none of them.
    methods_of: Annotated[
        dict[str, tuple[str, ...]],
        At(lambda config: {name: config.methods_of(name) for name in config.models}),
    ]
    # Of each method, whose rows a reader may have together.
    families: Annotated[dict[str, str], _displayed("family")]
    # Methods of family `baseline`, whose speed is no achievement.
    baselines: Annotated[
        tuple[str, ...],
        At(lambda config: [n for n, m in config.methods.items() if m.family == "baseline"]),
    ]
    # Whose scores were made elsewhere, which have no time.
    imported: Annotated[tuple[str, ...], At(lambda config: list(config.sources(ScoresFile)))]
    controls: Annotated[dict[str, str], At(_controls)]  # of the metrics' own test
    types: NumberTypes
    clamp: Clamp  # where Soft-NS is clamped at 0
    score_floor: float  # scores are clipped to [floor, 1 - floor] to calibrate
    equivalence_margin: EquivalenceMargin
    # Of the tokens that have scores; None: no figures of single texts.
    top_share: Annotated[float | None, At("run_file.qualitative.top_share")]
    targets: Targets
    # By model, how each of its datasets is cut into shards; None: it is not.
    shards: Annotated[dict[str, dict[str, Shards | None]], At(_shards)]

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

PUBLISHED_MODELS = {  # labels of the paper's
    "llama-3.1-8b-instruct": "Llama-3.1-8B-Instruct",
    "mistral-7b-instruct-v0.3": "Mistral-7B-Instruct-v0.3",
    "llama-3.1-70b-instruct": "Llama-3.1-70B-Instruct",
}
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
    """Return what those models or datasets are that are not as published."""
    added = dict.fromkeys(getattr(config.run_file.catalogue, kind), "an entry of the run file")
    entries: Mapping[str, ModelEntry | DatasetEntry] = getattr(config, kind)
    origins = {
        name: OTHER_RECORDS.get(name) or OTHER_SOURCES.get(entry.source.kind) or added.get(name)
        for name, entry in entries.items()
        if name not in PUBLISHED_FILES
    }
    return {name: origin for name, origin in origins.items() if origin is not None}


def published_models(config: Config) -> list[str]:
    """Return the models of a run that are the paper's."""
    others = _not_published(config, "models")
    return [name for name in PUBLISHED_MODELS if name in config.models and name not in others]


class PublishedJob(JobSettings, of="run_file"):
    """Settings of the comparison with the paper: what is not as published.

    A model or a dataset is the published one if it is the catalogue's entry and comes from the hub;
    of datasets :data:`OTHER_RECORDS` are none, and :data:`PUBLISHED_FILES` are some.
    """

    models: ModelLabels
    datasets: DatasetLabels
    # What those are that are not the published ones.
    other_models: Annotated[dict[str, str], At(lambda config: _not_published(config, "models"))]
    other_datasets: Annotated[dict[str, str], At(lambda config: _not_published(config, "datasets"))]
    types: NumberTypes
    # Of each method, with defaults.
    options: Annotated[dict[str, dict[str, Any]], At("methods.*.resolved")]
    masked_model: str
    target: Target
    # Of methods that have one of their own.
    targets: Annotated[dict[str, Target], At("methods.*.target")]
    prompts: PromptSettings
    generation: GenerationSettings
    evaluation: EvaluationSettings
    ranking: RankingSettings | None


class ExplorerJob(ScoreSettings, LabelSettings, of="run_file.evaluation"):
    """Settings of `build_explorer`; the run must have an explorer."""

    run: Annotated[str, At("run_file.run")]
    samples: Annotated[int, At("run_file.explorer.samples")]  # of each model and dataset
    targets: Targets
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
