"""The configuration: a run file, and the catalogue entries (:mod:`pisoft.catalogue`) it selects.

Unknown keys are forbidden, and every error names the file, the key path, the bad value, what is
allowed and the nearest match (:mod:`pisoft.validation`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PositiveInt,
    Tag,
    field_validator,
    model_validator,
)

from pisoft.catalogue import (
    DatasetEntry,
    MaskedModelEntry,
    MethodEntry,
    ModelEntry,
    Name,
    Selection,
    Strict,
    TrainedMaskedModel,
    TrainedModel,
    check_selection,
)
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.studies import LayerStudy, StudyMethod, study_methods
from pisoft.validation import read_yaml, validate

if TYPE_CHECKING:
    from pisoft.attribution.base import AttributionMethod

CATALOGUES = ("models", "masked_models", "datasets", "methods")
Protocol = Literal["dynamic", "fixed"]
Scope = Literal["content", "user_turn", "all_but_bos", "all"]
Normalisation = Literal["minmax", "rank", "max"]
AttributedFunction = Literal["probability", "logit"]
Operator = Literal["remove", "zero"]
Sampler = Literal["iid", "latin"]
Preset = Literal["paper", "efficient"]

# What a preset says about keys that are not given.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"sampler": "iid", "draws": 15, "clamp": True},
    "efficient": {"sampler": "latin", "draws": 1, "clamp": False},
}
FIRST_DRAWS = 1  # of a budget
SMALLEST_BUDGET_GRID = 3  # retaining probabilities by which a single draw shows how much it varies


# Run file -------------------------------------------------------------------------------------


class PromptSettings(Strict):
    """How prompts are built."""

    max_tokens: int | None = Field(
        None, gt=0, description="Longest prompt, tokens; null: what the model's context allows."
    )


class GenerationSettings(Strict):
    """Greedy decoding and the steps that are explained."""

    max_new_tokens: int = Field(50, gt=0, description="Longest open generation, tokens.")
    step_interval: int = Field(
        5, gt=0, description="Every how many generated tokens one is explained (paper: 5)."
    )


class DrawBudget(Strict):
    """Draws are added to a cell until its means are known well enough."""

    target_half_width: float = Field(
        gt=0,
        description="Half-width of the 95 % Monte Carlo interval of the cell's mean AUC of "
        "π-Soft-NS and of π-Soft-NC, at which no more draws are added.",
    )
    max: int = Field(15, gt=FIRST_DRAWS, description="Most draws per retaining probability.")


# A tag in brackets is left out of the key path in error messages.
Draws = Annotated[
    Annotated[PositiveInt, Tag("[number]")] | Annotated[DrawBudget, Tag("[budget]")],
    Discriminator(lambda given: "[budget]" if isinstance(given, dict | DrawBudget) else "[number]"),
]


class DrawSettings(Strict):
    """How scores become masks: what the draws of a cell depend on."""

    scope: Scope = Field("content", description="Tokens a perturbation may touch.")
    normalisation: Normalisation = Field(
        "minmax", description="How raw scores of one step become scores in [0, 1]."
    )
    score_floor: float = Field(
        1e-6, gt=0, lt=0.5, description="Scores are clipped to [floor, 1 - floor] to calibrate."
    )
    pi_grid: tuple[float, ...] = Field(
        tuple(round(0.05 * k, 2) for k in range(1, 20)),
        min_length=2,
        description="Target retaining probabilities, increasing, each in (0, 1).",
    )
    sampler: Sampler = Field(
        "iid",
        description="Masks drawn independently (`iid`), or spread evenly over draws and "
        "retaining probabilities (`latin`), so that means vary less.",
    )
    mask: Literal["token", "element"] = Field(
        "token",
        description="One bit per token, or one per element of its embedding, as the code released "
        "with the original metrics has it.",
    )
    draws: Draws = Field(
        15,
        description="Monte Carlo masks per retaining probability, or a budget: "
        "`{target_half_width: 0.005, max: 15}`.",
    )
    minimum_h0: float = Field(
        1e-4, gt=0, description="Zero-baseline distance below which a ratio is undefined."
    )

    @field_validator("pi_grid")
    @classmethod
    def _inside_and_increasing(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        for pi in grid:
            if not 0 < pi < 1:
                raise ValueError(f"each retaining probability must be in (0, 1), got {pi}")
        if any(b <= a for a, b in itertools.pairwise(grid)):
            raise ValueError(f"retaining probabilities must increase, got {list(grid)}")
        return grid

    @model_validator(mode="after")
    def _a_budget_needs_a_grid(self) -> DrawSettings:
        if isinstance(self.draws, DrawBudget) and len(self.pi_grid) < SMALLEST_BUDGET_GRID:
            raise ValueError(
                f"a budget of draws needs at least {SMALLEST_BUDGET_GRID} retaining probabilities "
                f"in pi_grid, got {list(self.pi_grid)}"
            )
        return self

    @property
    def most_draws(self) -> int:
        """The number of draws, or the most that a budget allows."""
        return self.draws.max if isinstance(self.draws, DrawBudget) else self.draws


class EvaluationSettings(DrawSettings):
    """The faithfulness metrics."""

    preset: Preset = Field(
        "paper",
        description="Defaults of `sampler`, `draws` and `clamp`: `paper` for iid, 15, true; "
        "`efficient` for latin, 1, false.",
    )
    clamp: bool = Field(
        True,
        description="Whether π-Soft-NS is clamped at 0 after averaging over draws (paper). The "
        "clamped mean depends on the number of draws, so a budget reports the mean without.",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        defaults = PRESETS.get(given.get("preset", "paper"), {})
        if isinstance(given.get("draws"), dict | DrawBudget):
            defaults = {**defaults, "clamp": False}
        return {**defaults, **given}

    @model_validator(mode="after")
    def _no_clamp_with_a_budget(self) -> EvaluationSettings:
        if self.clamp and isinstance(self.draws, DrawBudget):
            raise ValueError("clamp must be false where draws is a budget: it depends on them")
        return self


class RankingSettings(Strict):
    """Insertion and deletion, for datasets of label words; `evaluation.scope` holds here, too."""

    operator: Operator = Field(
        "remove",
        description="How a token is deleted: left out, so that the prompt is shorter (`remove`), "
        "or its input embedding multiplied by 0 (`zero`).",
    )
    steps: int = Field(
        20, ge=1, description="Steps of equal share; paper: 20, each of 5 % of the tokens."
    )


class StatisticsSettings(Strict):
    """How the uncertainty of the tables' numbers is estimated."""

    resamples: int = Field(
        10_000,
        ge=100,
        description="Bootstrap resamples of an interval, and sign flips of a permutation test.",
    )


class ExplorerSettings(Strict):
    """The page that shows the scores of single samples, token by token."""

    samples: int = Field(
        20, gt=0, description="Samples of each model and dataset that it shows, the first ones."
    )


class QualitativeSettings(Strict):
    """Figures of single texts with each method's most important tokens."""

    top_share: float = Field(
        0.1, gt=0, le=1, description="Share of a text's tokens that are shown as most important."
    )


class Restriction(Strict):
    """What a model is limited to; what is not given is not limited."""

    protocols: tuple[Protocol, ...] | None = Field(
        None, min_length=1, description="Routing protocols; null: all of the run."
    )
    methods: Selection = Field("all", description="Methods of the run, or `all` of them.")


class CatalogueAdditions(Strict):
    """Entries that only this run file uses; `extends: NAME` starts from a catalogue entry."""

    models: dict[Name, dict[str, Any]] = Field(default_factory=dict, description="Models.")
    masked_models: dict[Name, dict[str, Any]] = Field(
        default_factory=dict, description="Masked language models."
    )
    datasets: dict[Name, dict[str, Any]] = Field(default_factory=dict, description="Datasets.")
    methods: dict[Name, dict[str, Any]] = Field(default_factory=dict, description="Methods.")


class RunFile(Strict):
    """One run: what is selected, and how it is evaluated."""

    run: Name = Field(description="Results go to `results/<run>/`.")
    seed: int = Field(1, ge=0, description="Seed of sampling, random scores and masks.")
    models: Selection = Field(description="Catalogue names, or `all`.")
    datasets: Selection = Field(description="Catalogue names, or `all`.")
    methods: Selection = Field("all", description="Catalogue names, or `all`.")
    masked_model: Name = Field(
        "roberta-base",
        description="Catalogue name of the masked language model, for methods that need one.",
    )
    protocols: tuple[Protocol, ...] = Field(
        ("dynamic",),
        min_length=1,
        description="Routing protocols of the evaluation: attention computed anew for every "
        "perturbed input (`dynamic`), or replayed from the clean one (`fixed`).",
    )
    restrictions: dict[Name, Restriction] = Field(
        default_factory=dict,
        description="By model: protocols and methods that it is limited to, for models that are "
        "too expensive for all of them.",
    )
    max_samples: int | None = Field(
        None, gt=0, description="Upper limit of samples per dataset; null: the catalogue's number."
    )
    block_size: int = Field(
        16, gt=0, description="Consecutive samples per block; batches never cross a block."
    )
    local_root: str | None = Field(
        None, description="Folder that `{local_root}` stands for in local paths."
    )
    prompts: PromptSettings = Field(default_factory=PromptSettings, description="Prompts.")
    generation: GenerationSettings = Field(
        default_factory=GenerationSettings, description="Generation."
    )
    evaluation: EvaluationSettings = Field(
        default_factory=EvaluationSettings, description="Evaluation."
    )
    ranking: RankingSettings | None = Field(
        default_factory=RankingSettings, description="Insertion and deletion; null: neither."
    )
    statistics: StatisticsSettings = Field(
        default_factory=StatisticsSettings, description="Intervals and tests."
    )
    qualitative: QualitativeSettings | None = Field(
        default_factory=QualitativeSettings,
        description="Figures of single texts; null: none.",
    )
    layer_study: LayerStudy | None = Field(
        None, description="Grad-ELLM at several depths; null: no such study."
    )
    explorer: ExplorerSettings | None = Field(
        default_factory=ExplorerSettings, description="Attribution explorer; null: no such page."
    )
    catalogue: CatalogueAdditions = Field(
        default_factory=CatalogueAdditions, description="Additional catalogue entries."
    )

    _unique = field_validator("protocols")(check_selection)


Cell = tuple[Protocol, str, str, str]  # protocol, model, method, dataset


class Config(BaseModel):
    """A run file with the catalogue entries it selects, in the order of selection.

    ``masked_models`` holds one entry, that of ``run_file.masked_model``.
    """

    model_config = ConfigDict(frozen=True)

    run_file: RunFile
    models: dict[str, ModelEntry]
    masked_models: dict[str, MaskedModelEntry]
    datasets: dict[str, DatasetEntry]
    methods: dict[str, MethodEntry]
    study_methods: tuple[StudyMethod, ...] = ()
    study_datasets: tuple[str, ...] = ()

    @property
    def evaluated_methods(self) -> dict[str, MethodEntry]:
        """The selected methods, and those that only the layer study evaluates."""
        return {**self.methods, **{method.name: method.entry for method in self.study_methods}}

    @property
    def cells(self) -> list[Cell]:
        """Everything that the main tables show."""
        return [
            (protocol, model, method, dataset)
            for protocol in self.run_file.protocols
            for model in self.models
            if protocol in self.protocols_of(model)
            for method in self.methods
            if method in self.methods_of(model)
            for dataset in self.datasets
        ]

    @property
    def study_cells(self) -> list[Cell]:
        """Everything that the layer study shows."""
        return [
            (protocol, method.model, method.name, dataset)
            for method in self.study_methods
            for protocol in self.protocols_of(method.model)
            for dataset in self.study_datasets
        ]

    def protocols_of(self, model: str) -> tuple[Protocol, ...]:
        """Return the protocols under which a model is evaluated."""
        allowed = self.run_file.restrictions.get(model, Restriction()).protocols
        protocols = self.run_file.protocols
        return tuple(name for name in protocols if allowed is None or name in allowed)

    def methods_of(self, model: str) -> tuple[str, ...]:
        """Return the methods that explain a model."""
        allowed = self.run_file.restrictions.get(model, Restriction()).methods
        return tuple(name for name in self.methods if allowed == "all" or name in allowed)


def load_run(
    raw: Mapping[str, Any], run_files: Iterable[str | Path], config_folder: Path
) -> Config:
    """Validate what Snakemake has merged from run files and command line.

    Args:
        raw: the merged configuration.
        run_files: files named by `--configfile`; empty if the embedded default is used.
        config_folder: folder with the embedded default `config.yaml` and the catalogues.

    Raises:
        BenchmarkError: as :func:`load_config`, or a duplicate key in a run file.
    """
    files = [Path(file) for file in run_files] or [config_folder / "config.yaml"]
    for file in files:
        read_yaml(file)
    return load_config(raw, config_folder / "catalogue", ", ".join(map(str, files)))


def load_config(raw: Mapping[str, Any], catalogue_folder: Path, origin: str) -> Config:
    """Validate a run file's content against the catalogues.

    Args:
        raw: the merged content of the run file and the command line.
        catalogue_folder: folder with one YAML file for each of :data:`CATALOGUES`.
        origin: the run file's name, for error messages.

    Raises:
        BenchmarkError: anything that is wrong and can be known without reading data or weights.
    """
    run_file = validate(RunFile, raw, origin)
    entries: dict[str, dict[str, Any]] = {}
    names: dict[str, list[str]] = {}
    entry_types: dict[str, type[Strict]] = dict(
        zip(CATALOGUES, (ModelEntry, MaskedModelEntry, DatasetEntry, MethodEntry), strict=True)
    )
    for kind in CATALOGUES:
        path = catalogue_folder / f"{kind}.yaml"
        listed = read_yaml(path)
        additions = getattr(run_file.catalogue, kind)
        for name in sorted(set(listed) & set(additions)):
            raise BenchmarkError(
                f"{origin}: catalogue.{kind}.{name}: duplicate name; {path} has it already"
            )
        where = {name: str(path) for name in listed} | dict.fromkeys(
            additions, f"{origin}: catalogue.{kind}"
        )
        available = {**listed, **additions}
        names[kind] = list(available)
        key, selection = _selection(run_file, kind)
        chosen = _selected(selection, available, f"{origin}: {key}")
        entries[kind] = {
            name: validate(
                entry_types[kind],
                _fill_local_root(_extended(name, available, where), run_file.local_root, origin),
                f"{where[name]}: {name}",
            )
            for name in chosen
        }
    config = Config(run_file=run_file, **entries)
    _check_restrictions(config, names, origin)
    _check_references(config, origin)
    return config if run_file.layer_study is None else _with_layer_study(config, origin)


def _check_restrictions(
    config: Config, available: Mapping[str, Iterable[str]], origin: str
) -> None:
    """Check that restrictions name what the catalogues have, and leave something of every model."""
    where = f"{origin}: restrictions"
    restrictions = config.run_file.restrictions
    _selected(restrictions, available["models"], where)
    for model, restriction in restrictions.items():
        _selected(restriction.methods, available["methods"], f"{where}.{model}.methods")
    for model in sorted(set(restrictions) & set(config.models)):
        if not config.protocols_of(model) or not config.methods_of(model):
            raise BenchmarkError(
                f"{where}.{model}: leaves nothing of the run's protocols "
                f"({', '.join(config.run_file.protocols)}) and methods "
                f"({', '.join(config.methods)}) for this model"
            )


def _with_layer_study(config: Config, origin: str) -> Config:
    """Resolve the layer study's selections, which are among those of the run."""
    study, where = config.run_file.layer_study, f"{origin}: layer_study"
    assert study is not None
    models = _selected(study.models, config.models, f"{where}.models")
    datasets = _selected(study.datasets, config.datasets, f"{where}.datasets")
    methods = study_methods(study, {name: config.models[name].source for name in models})
    for name in sorted({method.name for method in methods} & set(config.methods)):
        raise BenchmarkError(
            f"{origin}: methods: '{name}' is a name that the layer study uses; rename this entry"
        )
    return config.model_copy(update={"study_methods": methods, "study_datasets": tuple(datasets)})


def _selection(run_file: RunFile, kind: str) -> tuple[str, Selection]:
    """Return the key of the run file that selects from a catalogue, and what it selects."""
    if kind == "masked_models":
        return "masked_model", (run_file.masked_model,)
    return kind, getattr(run_file, kind)


def _selected(selection: Any, available: Iterable[str], where: str) -> list[str]:
    """Resolve `all` or a list of names; an unknown name is an error with the nearest match."""
    names = list(available)
    if selection == "all":
        return names
    for name in selection:
        if name not in names:
            raise BenchmarkError(f"{where}: unknown name '{name}'" + did_you_mean(name, names))
    return list(selection)


def _extended(name: str, available: Mapping[str, Any], where: Mapping[str, str]) -> dict[str, Any]:
    """Return an entry on top of the one it `extends`, key by key (sections are not merged)."""
    chain: list[dict[str, Any]] = []
    seen: list[str] = []
    current: str | None = name
    while current is not None:
        if current in seen:
            raise BenchmarkError(f"{where[name]}: {name}: extends itself: {' → '.join(seen)}")
        if current not in available:
            raise BenchmarkError(
                f"{where[name]}: {name}: extends: unknown name '{current}'"
                + did_you_mean(current, available)
            )
        entry = dict(available[current] or {})
        seen.append(current)
        current = entry.pop("extends", None)
        chain.append(entry)
    return {key: value for entry in reversed(chain) for key, value in entry.items()}


def _fill_local_root(entry: dict[str, Any], local_root: str | None, origin: str) -> dict[str, Any]:
    """Replace `{local_root}` in a source's path."""
    source = entry.get("source")
    if not isinstance(source, dict) or "{local_root}" not in str(source.get("path", "")):
        return entry
    if local_root is None:
        raise BenchmarkError(
            f"{origin}: local_root: not set, but '{source['path']}' needs it; "
            "add `--config local_root=DIR` to the command line"
        )
    path = str(source["path"]).replace("{local_root}", str(local_root))
    return {**entry, "source": {**source, "path": path}}


def _check_references(config: Config, origin: str) -> None:
    """Check what crosses entries: local paths exist, methods and their options are legal."""
    for name, dataset in config.datasets.items():
        if dataset.source.kind == "file" and not Path(dataset.source.path).is_file():
            raise BenchmarkError(
                f"{origin}: dataset '{name}': source.path: no such file: {dataset.source.path}"
            )
    for name, model in config.models.items():
        _check_weights(f"{origin}: model '{name}'", model, config)
    needed_by = [
        _check_method(name, method, origin).needs_masked_model
        for name, method in config.methods.items()
    ]
    if any(needed_by):  # else it may be anywhere
        for name, masked in config.masked_models.items():
            _check_weights(f"{origin}: masked model '{name}'", masked, config)


def _check_weights(where: str, entry: ModelEntry | MaskedModelEntry, config: Config) -> None:
    if entry.source.kind == "local":
        _check_model_folder(Path(entry.source.path), f"{where}: source.path")
    if entry.source.kind == "trained":
        _check_training_datasets(entry.source, config, f"{where}: source.datasets")


def _check_model_folder(folder: Path, where: str) -> None:
    if not folder.is_dir():
        raise BenchmarkError(f"{where}: no such folder: {folder}")
    if not (folder / "config.json").is_file():
        raise BenchmarkError(f"{where}: {folder} holds no config.json, so it is not a model folder")
    if not any(folder.glob("*.safetensors")):
        raise BenchmarkError(f"{where}: {folder} holds no *.safetensors; other formats are refused")


def _check_training_datasets(
    source: TrainedModel | TrainedMaskedModel, config: Config, where: str
) -> None:
    embedded = {k for k, v in config.datasets.items() if v.source.kind == "embedded"}
    for dataset in source.datasets:
        if dataset not in embedded:
            raise BenchmarkError(
                f"{where}: '{dataset}' is no selected embedded dataset"
                + did_you_mean(dataset, embedded)
            )


def _check_method(name: str, entry: MethodEntry, origin: str) -> type[AttributionMethod]:
    """Return the class of a method that exists and has the options it is given."""
    from pisoft.attribution import load_method

    where = f"{origin}: method '{name}'"
    try:
        method = load_method(entry.method or name)
    except BenchmarkError as error:
        raise BenchmarkError(f"{where}: {error}") from error
    validate(method.Options, entry.options, f"{where}: options")
    return method
