"""The configuration: catalogues of models, datasets and methods, and the run file that selects.

Unknown keys are forbidden, and every error names the file, the key path, the bad value, what is
allowed and the nearest match (:mod:`pisoft.validation`).
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.validation import read_yaml, validate

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
CATALOGUES = ("models", "datasets", "methods")

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Task = Literal["classification", "generation"]
Protocol = Literal["dynamic"]
Scope = Literal["content", "user_turn", "all_but_bos", "all"]
Normalisation = Literal["minmax", "rank", "max"]
AttributedFunction = Literal["probability", "logit"]


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# Models ---------------------------------------------------------------------------------------


class HubModel(Strict):
    """Weights and tokenizer from the Hugging Face hub (safetensors only)."""

    kind: Literal["hub"]
    repository: str = Field(description="Hub repository, `owner/name`.")
    revision: str = Field("main", description="Branch, tag or commit.")


class LocalModel(Strict):
    """Weights and tokenizer from a local folder as written by `save_pretrained`."""

    kind: Literal["local"]
    path: str = Field(description="Folder; `{local_root}` is replaced by the run's `local_root`.")


class TrainedModel(Strict):
    """A tiny model that a rule of the workflow trains on the embedded datasets."""

    kind: Literal["trained"]
    architecture: Literal["llama", "mistral"] = Field(description="Model class and chat template.")
    datasets: tuple[Name, ...] = Field(min_length=1, description="Embedded datasets to train on.")
    hidden_size: int = Field(96, gt=0, description="Width of the residual stream.")
    layers: int = Field(4, gt=0, description="Decoder layers.")
    heads: int = Field(4, gt=0, description="Query heads.")
    key_value_heads: int = Field(2, gt=0, description="Key/value heads (grouped-query attention).")
    vocabulary_size: int = Field(1200, gt=0, description="Entries of the trained tokenizer.")
    context: int = Field(256, gt=0, description="Longest sequence, tokens.")
    steps: int = Field(1200, gt=0, description="Optimiser steps.")
    batch_size: int = Field(32, gt=0, description="Dialogues per optimiser step.")
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate.")
    training_records: int = Field(6000, gt=0, description="Records per dataset to train on.")
    held_out_records: int = Field(100, gt=0, description="Records per dataset to test on.")
    required_accuracy: float = Field(
        0.98, gt=0, le=1, description="Held-out accuracy below which the rule fails."
    )
    seed: int = Field(1, description="Seed of weights and batches.")


class Resources(Strict):
    """What one job with this model asks of the machine."""

    gpu: int = Field(0, ge=0, description="GPUs per job.")
    mem_mb: int = Field(4000, ge=300, description="Main memory per job, MB.")
    runtime: int = Field(60, gt=0, description="Wall-clock limit per job, minutes.")
    threads: int = Field(1, gt=0, description="CPU threads per job.")


class ModelEntry(Strict):
    """One explained language model."""

    label: str = Field(description="Name in tables and figures.")
    source: Annotated[HubModel | LocalModel | TrainedModel, Field(discriminator="kind")]
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = Field(
        "float32", description="Type of weights and activations."
    )
    quantization: Literal["none", "nf4"] = Field(
        "none", description="4-bit weights through bitsandbytes (`nf4`)."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="`auto` takes a free CUDA device if there is one."
    )
    chat_template: Literal["tokenizer", "plain"] = Field(
        "tokenizer",
        description="`plain` joins the messages by blank lines, for models without a template.",
    )
    token_budget: int = Field(
        1024,
        gt=0,
        description="Tokens per forward batch; about 1024 suits CPU caches, 16384 a large GPU.",
    )
    resources: Resources = Field(default_factory=Resources, description="Job resources.")


# Datasets -------------------------------------------------------------------------------------


class HubDataset(Strict):
    """Records from the Hugging Face hub."""

    kind: Literal["hub"]
    repository: str = Field(description="Hub repository, `owner/name`.")
    split: str = Field(description="Split to read.")
    revision: str = Field("main", description="Branch, tag or commit.")
    configuration: str | None = Field(None, description="Hub configuration name, if any.")


class FileDataset(Strict):
    """Records from one local file."""

    kind: Literal["file"]
    path: str = Field(description="File; `{local_root}` is replaced by the run's `local_root`.")
    format: Literal["csv", "tsv", "jsonl", "parquet"] = Field(description="File format.")
    columns: tuple[str, ...] | None = Field(
        None, description="Column names of a csv or tsv file without a header line."
    )


class EmbeddedDataset(Strict):
    """Synthetic records with planted evidence, made by the workflow."""

    kind: Literal["embedded"]
    task: Literal["sentiment", "why"] = Field(description="Generator.")
    records: int = Field(200, gt=0, description="Records to make.")
    seed: int = Field(0, description="Seed of the records; training uses another.")


class TextField(Strict):
    """Where one text field comes from."""

    column: str = Field(description="Column of the source.")
    first_sentences: int | None = Field(
        None, gt=0, description="Keep only the first N sentences of the column."
    )


class Labels(Strict):
    """How the source's label column maps to the words the model is asked to answer with."""

    column: str = Field(description="Column of the source.")
    words: dict[str, str] = Field(
        min_length=2, description="Label word for each value of the column."
    )

    @field_validator("words", mode="before")
    @classmethod
    def _keys_as_text(cls, words: Any) -> Any:
        """YAML reads `0:` as a number and `true:` as a boolean; labels are compared as text."""
        if not isinstance(words, Mapping):
            return words
        return {label_key(key): word for key, word in words.items()}

    @field_validator("words")
    @classmethod
    def _distinct(cls, words: dict[str, str]) -> dict[str, str]:
        if len(set(words.values())) < len(words):
            raise ValueError(f"label words must differ, got {sorted(words.values())}")
        return words


class Message(Strict):
    """One turn of the prompt; `{field}` inserts a text field of the record."""

    role: Literal["system", "user"] = Field(description="Who speaks.")
    content: str = Field(min_length=1, description="Text with `{field}` placeholders.")


class DatasetEntry(Strict):
    """One dataset, its prompt and its target."""

    label: str = Field(description="Name in tables and figures.")
    task: Task = Field(description="`classification` (label words) or `generation` (open text).")
    source: Annotated[HubDataset | FileDataset | EmbeddedDataset, Field(discriminator="kind")]
    fields: dict[Name, TextField] = Field(min_length=1, description="Text fields of a record.")
    labels: Labels | None = Field(None, description="Label column; classification only.")
    id_column: str | None = Field(
        None, description="Column with a unique id; without it the id is a hash of the texts."
    )
    answer_column: str | None = Field(
        None, description="Column with a reference answer (kept, not used by the metrics)."
    )
    messages: tuple[Message, ...] = Field(min_length=1, description="The prompt, turn by turn.")
    samples: int | None = Field(
        None, gt=0, description="Records to sample, equally many per label; null takes all."
    )
    truncate: Name | None = Field(
        None, description="Field shortened when a prompt is too long; null: the longest one."
    )

    @field_validator("fields", mode="before")
    @classmethod
    def _short_form(cls, fields: Any) -> Any:
        """`text: sentence` is short for `text: {column: sentence}`."""
        if not isinstance(fields, Mapping):
            return fields
        return {k: {"column": v} if isinstance(v, str) else v for k, v in fields.items()}

    @model_validator(mode="after")
    def _consistent(self) -> DatasetEntry:
        if (self.task == "classification") != (self.labels is not None):
            need = "needs" if self.task == "classification" else "takes no"
            raise ValueError(f"a {self.task} dataset {need} `labels`")
        used = {name for message in self.messages for name in placeholders(message.content)}
        for name in sorted(used - set(self.fields)):
            raise ValueError(
                f"messages use the field '{name}', which `fields` does not define"
                + did_you_mean(name, self.fields)
            )
        if not used:
            raise ValueError("messages use no field of the record, so nothing could be explained")
        if self.truncate is not None and self.truncate not in used:
            raise ValueError(f"truncate: '{self.truncate}'" + did_you_mean(self.truncate, used))
        return self


# Methods --------------------------------------------------------------------------------------


class MethodEntry(Strict):
    """One attribution method with its options."""

    method: Name | None = Field(
        None, description="File in `scripts/pisoft/attribution/`; null: the entry's own name."
    )
    label: str | None = Field(None, description="Name in tables; null: the method's own label.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the method; see `Options` in its file."
    )


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


class EvaluationSettings(Strict):
    """The faithfulness metrics."""

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
    draws: int = Field(15, ge=1, description="Monte Carlo masks per retaining probability.")
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


class CatalogueAdditions(Strict):
    """Entries that only this run file uses; `extends: NAME` starts from a catalogue entry."""

    models: dict[Name, dict[str, Any]] = Field(default_factory=dict, description="Models.")
    datasets: dict[Name, dict[str, Any]] = Field(default_factory=dict, description="Datasets.")
    methods: dict[Name, dict[str, Any]] = Field(default_factory=dict, description="Methods.")


Selection = Literal["all"] | tuple[Name, ...]


class RunFile(Strict):
    """One run: what is selected, and how it is evaluated."""

    run: Name = Field(description="Results go to `results/<run>/`.")
    seed: int = Field(1, ge=0, description="Seed of sampling, random scores and masks.")
    models: Selection = Field(description="Catalogue names, or `all`.")
    datasets: Selection = Field(description="Catalogue names, or `all`.")
    methods: Selection = Field("all", description="Catalogue names, or `all`.")
    protocols: tuple[Protocol, ...] = Field(
        ("dynamic",), min_length=1, description="Routing protocols of the evaluation."
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
    catalogue: CatalogueAdditions = Field(
        default_factory=CatalogueAdditions, description="Additional catalogue entries."
    )

    @field_validator("models", "datasets", "methods", "protocols")
    @classmethod
    def _unique(cls, names: Any) -> Any:
        if names != "all":
            repeated = sorted({name for name in names if list(names).count(name) > 1})
            if repeated:
                raise ValueError(f"listed twice: {', '.join(repeated)}")
            if not names:
                raise ValueError("nothing is selected")
        return names


class Config(BaseModel):
    """A run file with the catalogue entries it selects, in the order of selection."""

    model_config = ConfigDict(frozen=True)

    run_file: RunFile
    models: dict[str, ModelEntry]
    datasets: dict[str, DatasetEntry]
    methods: dict[str, MethodEntry]


def label_key(value: Any) -> str:
    """Return the text under which a label value is looked up (`True` → `"true"`, `1.0` → `"1"`)."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value)
    return text.lower() if text in ("True", "False") else text


def placeholders(template: str) -> list[str]:
    """Return the field names that a message template inserts, in order."""
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]


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
        catalogue_folder: folder with `models.yaml`, `datasets.yaml` and `methods.yaml`.
        origin: the run file's name, for error messages.

    Raises:
        BenchmarkError: anything that is wrong and can be known without reading data or weights.
    """
    run_file = validate(RunFile, raw, origin)
    entries: dict[str, dict[str, Any]] = {}
    entry_types: dict[str, type[Strict]] = dict(
        zip(CATALOGUES, (ModelEntry, DatasetEntry, MethodEntry), strict=True)
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
        chosen = _selected(getattr(run_file, kind), available, f"{origin}: {kind}")
        entries[kind] = {
            name: validate(
                entry_types[kind],
                _fill_local_root(_extended(name, available, where), run_file.local_root, origin),
                f"{where[name]}: {name}",
            )
            for name in chosen
        }
    config = Config(run_file=run_file, **entries)
    _check_references(config, origin)
    return config


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
        if model.source.kind == "local":
            _check_model_folder(name, Path(model.source.path), origin)
        if model.source.kind == "trained":
            _check_training_datasets(name, model.source, config, origin)
    for name, method in config.methods.items():
        _check_method(name, method, origin)


def _check_model_folder(name: str, folder: Path, origin: str) -> None:
    where = f"{origin}: model '{name}': source.path"
    if not folder.is_dir():
        raise BenchmarkError(f"{where}: no such folder: {folder}")
    if not (folder / "config.json").is_file():
        raise BenchmarkError(f"{where}: {folder} holds no config.json, so it is not a model folder")
    if not any(folder.glob("*.safetensors")):
        raise BenchmarkError(f"{where}: {folder} holds no *.safetensors; other formats are refused")


def _check_training_datasets(name: str, source: TrainedModel, config: Config, origin: str) -> None:
    embedded = {k for k, v in config.datasets.items() if v.source.kind == "embedded"}
    for dataset in source.datasets:
        if dataset not in embedded:
            raise BenchmarkError(
                f"{origin}: model '{name}': source.datasets: '{dataset}' is no selected embedded "
                "dataset" + did_you_mean(dataset, embedded)
            )


def _check_method(name: str, entry: MethodEntry, origin: str) -> None:
    from pisoft.attribution import load_method

    where = f"{origin}: method '{name}'"
    try:
        method = load_method(entry.method or name)
    except BenchmarkError as error:
        raise BenchmarkError(f"{where}: {error}") from error
    validate(method.Options, entry.options, f"{where}: options")
