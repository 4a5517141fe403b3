"""Checks of what crosses entries: paths, selections, and what one entry needs of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pisoft.config.datasets import FileDataset
from pisoft.config.methods import ScoresFile
from pisoft.config.models import GgufModel, LocalModel, TrainedModel, UnigramMaskedModel
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
    for model in config.models:
        for kind, of_run, of_model in (
            ("protocols", config.run_file.protocols, config.protocols_of(model)),
            ("methods", config.methods, config.methods_of(model)),
            ("datasets", config.datasets, config.datasets_of(model)),
        ):
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
    needs_masked = any(method.needs_masked_model for method in config.methods.values())
    entries: dict[str, Mapping[str, Any]] = {
        "dataset": config.datasets,
        "method": config.methods,
        "model": config.models,
        "masked model": config.masked_models if needs_masked else {},  # else anywhere
    }
    for kind, of_kind in entries.items():
        for name, entry in of_kind.items():
            _check_source(entry.source, config, f"{origin}: {kind} '{name}': source")


def _check_source(source: object, config: Config, where: str) -> None:
    match source:
        case FileDataset(paths=paths):
            for path in paths:
                _check_braces(path, where)
                if not Path(path).is_file():
                    raise BenchmarkError(f"{where}.path: no such file: {path}")
        case ScoresFile(path=path):  # which need not be there until its scores are imported
            _check_braces(source.path_of("", ""), where, ", {model} and {dataset}")
            results = Path("results", config.run_file.run)
            if Path(path).resolve().is_relative_to(results.resolve()):
                raise BenchmarkError(
                    f"{where}.path: {path} is in {results}, where the workflow may write over it; "
                    "copy it elsewhere"
                )
        case Control(needs_evidence=True):
            for name, dataset in config.datasets.items():
                if not dataset.has_evidence:
                    raise BenchmarkError(
                        f"{where}.scores: needs known evidence, which the records of dataset "
                        f"'{name}' do not have; leave one of both out of this run"
                    )
        case LocalModel(path=path):
            _check_braces(path, where)
            _check_model_folder(Path(path), f"{where}.path")
        case GgufModel(path=path):
            _check_braces(path, where)
            _check_gguf(Path(path), f"{where}.path")
        case TrainedModel(datasets=datasets) | UnigramMaskedModel(datasets=datasets):
            embedded = {k for k, v in config.datasets.items() if v.source.kind == "embedded"}
            for name in datasets:
                if name not in embedded:
                    raise BenchmarkError(
                        f"{where}.datasets: '{name}' is no selected embedded dataset"
                        + did_you_mean(name, embedded)
                    )


def _check_braces(path: str, where: str, others: str = "") -> None:
    if "{" in path or "}" in path:  # Snakemake would take them for a wildcard
        raise BenchmarkError(
            f"{where}.path: braces are not allowed, but for {{local_root}}{others}: {path}"
        )


def _check_model_folder(folder: Path, where: str) -> None:
    if not folder.is_dir():
        raise BenchmarkError(f"{where}: no such folder: {folder}")
    if not (folder / "config.json").is_file():
        raise BenchmarkError(f"{where}: {folder} holds no config.json, so it is not a model folder")
    if not any(folder.glob("*.safetensors")):
        raise BenchmarkError(f"{where}: {folder} holds no *.safetensors; other formats are refused")


def _check_gguf(path: Path, where: str) -> None:
    if not path.is_file():
        found = [other.name for other in path.parent.glob("*.gguf")]
        raise BenchmarkError(f"{where}: no such file: {path}" + did_you_mean(path.name, found))
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise BenchmarkError(f"{where}: {path} is not a GGUF file")
