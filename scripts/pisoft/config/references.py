"""Checks across entries: paths, selections, and dependencies of one entry on another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pisoft.config.datasets import FileDataset
from pisoft.config.layer_study import decoder_layers
from pisoft.config.methods import ScoresFile
from pisoft.config.models import (
    ADAPTER,
    GgufModel,
    LocalModel,
    ModelEntry,
    TrainedModel,
    UnigramMaskedModel,
)
from pisoft.config.resolved import Config
from pisoft.config.studies import SELECTED_LABELS, Control, SanityChecks
from pisoft.config.validation import selected
from pisoft.errors import BenchmarkError, did_you_mean, nearest_path


def check_restrictions(config: Config, available: Mapping[str, Iterable[str]], origin: str) -> None:
    """Check that restrictions name existing entries and leave no model or dataset empty."""
    where = f"{origin}: restrictions"
    restrictions = config.run_file.restrictions
    selected(restrictions, available["models"], where)
    for model, restriction in restrictions.items():
        for kind in ("methods", "datasets"):
            selected(getattr(restriction, kind), available[kind], f"{where}.{model}.{kind}")
    for model in config.models:
        for kind in ("protocols", "methods", "datasets"):
            if not config.allowed(model, kind):
                run_names = getattr(config if kind != "protocols" else config.run_file, kind)
                raise BenchmarkError(
                    f"{where}.{model}.{kind}: leaves nothing of the run's {kind} "
                    f"({', '.join(run_names)}) for this model"
                )
        _check_backward(config, model, where)
    evaluated = {name for model in config.models for name in config.datasets_of(model)}
    for name in sorted(config.datasets.keys() - evaluated):
        raise BenchmarkError(
            f"{where}: leave no model for dataset '{name}'; allow it for one of "
            f"{', '.join(config.models)}, or leave it out of `datasets`"
        )


def _check_backward(config: Config, model: str, where: str) -> None:
    quantization, names = config.models[model].quantization, config.methods_of(model)
    modifying = [name for name in names if config.methods[name].modifies_backward]
    if quantization != "none" and modifying:
        allowed = [name for name in names if name not in modifying]
        raise BenchmarkError(
            f"{where}.{model}.methods: {', '.join(modifying)} modify the backward pass, but the "
            f"weights of '{model}' are quantised ({quantization}); allowed: {', '.join(allowed)}"
        )


def check_references(config: Config, origin: str) -> None:
    """Check that local paths exist and that entries refer to what the run has."""
    kinds = ["datasets", "methods", "models"]
    if config.needs_masked_model:
        kinds.append("masked_models")  # an unused one may be missing
    for kind in kinds:
        for name, entry in getattr(config, kind).items():
            try:
                problem = next(_problems(entry.source, config), "")
            except PermissionError as error:
                problem = f"path: cannot be read: {error.strerror}: {error.filename}"
            if problem:
                noun = kind.removesuffix("s").replace("_", " ")
                raise BenchmarkError(f"{origin}: {noun} '{name}': source.{problem}")


def check_labels(config: Config, origin: str) -> None:
    """Check that the models, datasets and methods of a run have unique labels."""
    study = config.run_file.layer_study
    selected_depths = [SELECTED_LABELS[name] for name in study.token_weights] if study else []
    for kind in ("models", "datasets", "methods"):
        entries = dict.fromkeys(selected_depths if kind == "methods" else (), "layer_study")
        for name, entry in getattr(config, kind).items():
            first = entries.setdefault(entry.label, name)
            if first != name:
                raise BenchmarkError(
                    f"{origin}: {kind}: '{first}' and '{name}' have the same label "
                    f"'{entry.label}'; set `label` of '{name}'"
                )


def _problems(source: object, config: Config) -> Iterator[str]:
    """Yield the problems of an entry's source, each with its key."""
    match source:
        case FileDataset(paths=paths):
            for path in paths:
                yield from _braces(path)
                if not Path(path).is_file():
                    yield f"path: no such file: {path}{nearest_path(path)}"
        case ScoresFile(path=path):  # may be missing until its scores are imported
            yield from _braces(source.path_of("", ""), ", {model} and {dataset}")
            results = Path("results", config.run_file.run)
            if Path(path).resolve().is_relative_to(results.resolve()):
                where = f"{results}, where the workflow may write over it"
                yield f"path: {path} is in {where}; copy it elsewhere"
        case Control(needs_evidence=True):
            for name, dataset in config.datasets.items():
                if not dataset.has_evidence:
                    yield (
                        f"scores: needs known evidence, which the records of dataset '{name}' do "
                        "not have; leave one of the two out of this run"
                    )
        case LocalModel(path=path):
            yield from _braces(path)
            if not Path(path).is_dir():
                yield f"path: no such folder: {path}{nearest_path(path)}"
            if not Path(path, "config.json").is_file():
                yield f"path: {path} holds no config.json, so it is not a model folder"
            if not any(Path(path).glob("*.safetensors")):
                yield f"path: {path} holds no *.safetensors; other formats are refused"
            if Path(path, ADAPTER).is_file():
                yield f"path: {path} holds {ADAPTER}; merge the adapter into its model"
            decoder_layers(source)
        case GgufModel(path=path):
            yield from _braces(path)
            if not Path(path).is_file():
                yield f"path: no such file: {path}{nearest_path(path)}"
            with Path(path).open("rb") as file:
                if file.read(4) != b"GGUF":
                    yield f"path: {path} is not a GGUF file"
        case TrainedModel(datasets=names) | UnigramMaskedModel(datasets=names):
            embedded = {k for k, v in config.datasets.items() if v.source.kind == "embedded"}
            for name in names:
                if name not in embedded:
                    hint = did_you_mean(name, embedded)
                    yield f"datasets: '{name}' is no selected embedded dataset{hint}"


def unfit_for_checks(name: str, model: ModelEntry, checks: SanityChecks) -> Iterator[str]:
    """Yield reasons why sanity checks cannot randomise a model, each with the section's key."""
    if model.quantization != "none":
        yield (
            f"models: the weights of '{name}' are quantised ({model.quantization}), so they cannot "
            "be reinitialised"
        )
    if checks.labels and model.source.kind != "trained":
        yield (
            f"labels: is true, but the source of model '{name}' is of kind '{model.source.kind}', "
            "not 'trained': it cannot be trained on shuffled labels; leave it out of "
            "sanity_checks.models, or set labels to false"
        )


def _braces(path: str, allowed: str = "") -> Iterator[str]:
    if "{" in path or "}" in path:  # Snakemake would read them as wildcards
        yield f"path: braces are not allowed, except {{local_root}}{allowed}: {path}"
