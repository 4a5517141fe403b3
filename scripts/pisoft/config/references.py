"""Checks of what crosses entries: paths, selections, and what one entry needs of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pisoft.config.methods import ScoresFile
from pisoft.config.models import MaskedModelEntry, ModelEntry, TrainedModel, UnigramMaskedModel
from pisoft.config.resolved import Config
from pisoft.config.studies import Control
from pisoft.config.validation import selected
from pisoft.errors import BenchmarkError, did_you_mean


def check_restrictions(config: Config, available: Mapping[str, Iterable[str]], origin: str) -> None:
    """Check that restrictions name what the catalogues have, and leave something of everything."""
    where = f"{origin}: restrictions"
    restrictions = config.run_file.restrictions
    selected(restrictions, available["models"], where)
    for model, restriction in restrictions.items():
        for kind in ("methods", "datasets"):
            selected(getattr(restriction, kind), available[kind], f"{where}.{model}.{kind}")
    for model in sorted(set(restrictions) & set(config.models)):
        run = {
            "protocols": (config.run_file.protocols, config.protocols_of(model)),
            "methods": (config.methods, config.methods_of(model)),
            "datasets": (config.datasets, config.datasets_of(model)),
        }
        for kind, (of_run, of_model) in run.items():
            if not of_model:
                raise BenchmarkError(
                    f"{where}.{model}.{kind}: leaves nothing of the run's {kind} "
                    f"({', '.join(of_run)}) for this model"
                )
    evaluated = {name for model in config.models for name in config.datasets_of(model)}
    for name in config.datasets:
        if name not in evaluated:
            raise BenchmarkError(
                f"{where}: leave no model for dataset '{name}'; allow it for one of "
                f"{', '.join(config.models)}, or leave it out of `datasets`"
            )


def check_references(config: Config, origin: str) -> None:
    """Check what crosses entries: local paths exist, and models learn what the run has."""
    for name, dataset in config.datasets.items():
        paths = dataset.source.paths if dataset.source.kind == "file" else ()
        for path in paths:
            where = f"{origin}: dataset '{name}': source.path"
            _check_braces(path, where)
            if not Path(path).is_file():
                raise BenchmarkError(f"{where}: no such file: {path}")
    for name, method in config.methods.items():
        if isinstance(method.source, ScoresFile):
            _check_scores_path(method.source, config, f"{origin}: method '{name}': source.path")
        if isinstance(method.source, Control) and method.source.needs_evidence:
            _check_evidence(config, f"{origin}: method '{name}': source.scores")
    for name, model in config.models.items():
        _check_weights(f"{origin}: model '{name}'", model, config)
    if any(method.needs_masked_model for method in config.methods.values()):  # else anywhere
        for name, masked in config.masked_models.items():
            _check_weights(f"{origin}: masked model '{name}'", masked, config)


def _check_weights(where: str, entry: ModelEntry | MaskedModelEntry, config: Config) -> None:
    if entry.source.kind == "local":
        _check_model_folder(Path(entry.source.path), f"{where}: source.path")
    if entry.source.kind == "gguf":
        _check_gguf(Path(entry.source.path), f"{where}: source.path")
    if isinstance(entry.source, TrainedModel | UnigramMaskedModel):
        _check_training_datasets(entry.source, config, f"{where}: source.datasets")


def _check_evidence(config: Config, where: str) -> None:
    """Check that every dataset has the evidence that a control is made from."""
    for name, dataset in config.datasets.items():
        if not dataset.has_evidence:
            raise BenchmarkError(
                f"{where}: needs known evidence, which the records of dataset '{name}' do not "
                "have; leave one of both out of this run"
            )


def _check_scores_path(source: ScoresFile, config: Config, where: str) -> None:
    """Check a path that need not be there until its scores are imported."""
    _check_braces(source.path_of("", ""), where, ", {model} and {dataset}")
    results = Path("results", config.run_file.run)
    if Path(source.path).resolve().is_relative_to(results.resolve()):
        raise BenchmarkError(
            f"{where}: {source.path} is in {results}, where the workflow may write over it; "
            "copy it elsewhere"
        )


def _check_braces(path: str, where: str, others: str = "") -> None:
    if "{" in path or "}" in path:  # Snakemake would take them for a wildcard
        raise BenchmarkError(
            f"{where}: braces are not allowed, but for {{local_root}}{others}: {path}"
        )


def _check_model_folder(folder: Path, where: str) -> None:
    _check_braces(str(folder), where)
    if not folder.is_dir():
        raise BenchmarkError(f"{where}: no such folder: {folder}")
    if not (folder / "config.json").is_file():
        raise BenchmarkError(f"{where}: {folder} holds no config.json, so it is not a model folder")
    if not any(folder.glob("*.safetensors")):
        raise BenchmarkError(f"{where}: {folder} holds no *.safetensors; other formats are refused")


def _check_gguf(path: Path, where: str) -> None:
    _check_braces(str(path), where)
    if not path.is_file():
        found = [other.name for other in path.parent.glob("*.gguf")]
        raise BenchmarkError(f"{where}: no such file: {path}" + did_you_mean(path.name, found))
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise BenchmarkError(f"{where}: {path} is not a GGUF file")


def _check_training_datasets(
    source: TrainedModel | UnigramMaskedModel, config: Config, where: str
) -> None:
    embedded = {k for k, v in config.datasets.items() if v.source.kind == "embedded"}
    for dataset in source.datasets:
        if dataset not in embedded:
            raise BenchmarkError(
                f"{where}: '{dataset}' is no selected embedded dataset"
                + did_you_mean(dataset, embedded)
            )
