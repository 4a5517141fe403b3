"""Reading a run file with the catalogue entries it selects.

Unknown keys are forbidden, and every error names the file, the key path, the bad value, what is
allowed and the nearest match (:mod:`pisoft.config.validation`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pisoft.config.base import Cell, Protocol, Selection, Strict
from pisoft.config.datasets import DatasetEntry
from pisoft.config.methods import (
    EXPORT,
    LoadMethod,
    Method,
    MethodEntry,
    ScoresFile,
    given_method,
    resolve_method,
)
from pisoft.config.models import MaskedModelEntry, ModelEntry, TrainedMaskedModel, TrainedModel
from pisoft.config.run_file import Restriction, RunFile
from pisoft.config.sanity import Sanity, randomised
from pisoft.config.studies import LayerStudy, StudyMethod, decoder_layers, study_methods
from pisoft.config.trust import RANDOM, Control, Permuted, Trust, controls, twins
from pisoft.config.validation import read_yaml, validate, validate_name
from pisoft.errors import BenchmarkError, did_you_mean

CATALOGUES = ("models", "masked_models", "datasets", "methods")


class Config(BaseModel):
    """A run file with the catalogue entries it selects, in the order of selection.

    ``masked_models`` holds one entry, that of ``run_file.masked_model``.
    """

    model_config = ConfigDict(frozen=True)

    run_file: RunFile
    models: dict[str, ModelEntry]
    masked_models: dict[str, MaskedModelEntry]
    datasets: dict[str, DatasetEntry]
    methods: dict[str, Method]
    study_methods: tuple[StudyMethod, ...] = ()
    study_datasets: tuple[str, ...] = ()
    controls: dict[str, Method] = {}
    twins: dict[str, Method] = {}
    trust_models: tuple[str, ...] = ()
    trust_datasets: tuple[str, ...] = ()
    # By model and by method, the names of the method on that model with layers drawn anew.
    sanity: dict[str, dict[str, dict[str, Method]]] = {}
    sanity_datasets: tuple[str, ...] = ()

    @property
    def evaluated_methods(self) -> dict[str, Method]:
        """The selected methods, and those that only a study evaluates."""
        studied = {study.name: study.method for study in self.study_methods}
        checked = {
            name: method
            for of_model in self.sanity.values()
            for of_method in of_model.values()
            for name, method in of_method.items()
        }
        return {**studied, **checked, **self.controls, **self.twins, **self.methods}

    @property
    def imported_methods(self) -> dict[str, ScoresFile]:
        """The selected methods whose scores were made elsewhere, with their files."""
        sources = {name: method.source for name, method in self.methods.items()}
        return {name: file for name, file in sources.items() if isinstance(file, ScoresFile)}

    @property
    def constructed_methods(self) -> tuple[str, ...]:
        """The evaluated methods whose scores are made from the evidence, or from other scores."""
        return tuple(
            name
            for name, method in self.evaluated_methods.items()
            if isinstance(method.source, Control | Permuted)
        )

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

    @property
    def control_cells(self) -> list[Cell]:
        """Controls of the run's test of its metrics: where evidence and random scores are known."""
        return self._trust_cells(
            dict.fromkeys(self.controls, RANDOM),
            [name for name in self.trust_datasets if self.datasets[name].has_evidence],
        )

    @property
    def twin_cells(self) -> list[Cell]:
        """Every permuted twin of a method."""
        sources = {name: twin.source for name, twin in self.twins.items()}
        of = {name: twin.method for name, twin in sources.items() if isinstance(twin, Permuted)}
        return self._trust_cells(of, self.trust_datasets)

    @property
    def sanity_cells(self) -> list[Cell]:
        """Every method on every model with layers drawn anew; these are attributed alone."""
        return [
            (self.protocols_of(model)[0], model, name, dataset)
            for model, of_model in self.sanity.items()
            for of_method in of_model.values()
            for name in of_method
            for dataset in self.sanity_datasets
        ]

    def _trust_cells(self, compared: Mapping[str, str], datasets: Iterable[str]) -> list[Cell]:
        """Return the cells of methods that are compared with another one, where that is."""
        return [
            (protocol, model, name, dataset)
            for model in self.trust_models
            for protocol in self.protocols_of(model)
            for name, other in compared.items()
            if other in self.methods_of(model)
            for dataset in datasets
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
    raw: Mapping[str, Any],
    run_files: Iterable[str | Path],
    config_folder: Path,
    load_method: LoadMethod,
) -> Config:
    """Validate what Snakemake has merged from run files and command line.

    Args:
        raw: the merged configuration.
        run_files: files named by `--configfile`; empty if the embedded default is used.
        config_folder: folder with the embedded default `config.yaml` and the catalogues.
        load_method: looks methods up.

    Raises:
        BenchmarkError: as :func:`load_config`, or a run file that is no plain YAML.
    """
    files = [Path(file) for file in run_files] or [config_folder / "config.yaml"]
    for file in files:
        if "__use_yte__" in read_yaml(file):
            raise BenchmarkError(
                f"{file}: __use_yte__ is not allowed: Snakemake executes Python for it, and has by "
                "now; run files are plain YAML"
            )
    origin = ", ".join(map(str, files))
    return load_config(raw, config_folder / "catalogue", origin, load_method)


def load_config(
    raw: Mapping[str, Any], catalogue_folder: Path, origin: str, load_method: LoadMethod
) -> Config:
    """Validate a run file's content against the catalogues.

    Args:
        raw: the merged content of the run file and the command line.
        catalogue_folder: folder with one YAML file for each of :data:`CATALOGUES`.
        origin: the run file's name, for error messages.
        load_method: looks methods up.

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
        listed = _entries(path)
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
        given = {name: _extended(name, available, where) for name in chosen}
        if kind == "models":
            _selected(run_file.resources, available, f"{origin}: resources")
            given = {name: _with_resources(name, given[name], run_file) for name in chosen}
        entries[kind] = {}
        for name, entry in given.items():
            place, schema = f"{where[name]}: {name}", entry_types[kind]
            placed = _with_local_root(entry, schema, run_file.local_root, place)
            filled = _fill_local_root(placed, run_file.local_root, origin)
            entries[kind][name] = validate(schema, filled, place)
    methods = {
        name: resolve_method(name, entry, load_method, f"{origin}: method '{name}'")
        for name, entry in entries.pop("methods").items()
    }
    config = Config(run_file=run_file, methods=methods, **entries)
    _check_restrictions(config, names, origin)
    _check_references(config, origin)
    if run_file.layer_study is not None:
        config = _with_layer_study(config, run_file.layer_study, load_method, origin)
    if run_file.trust is not None:
        config = _with_trust(config, run_file.trust, names["methods"], origin)
    if run_file.sanity is not None:
        config = _with_sanity(config, run_file.sanity, names["methods"], origin)
    return config


def check_scores_files(config: Config) -> None:
    """Check that scores that were made elsewhere are there, before any job.

    Raises:
        BenchmarkError: a file is not.
    """
    for _, model, name, dataset in config.cells:
        source = config.methods[name].source
        if isinstance(source, ScoresFile) and not Path(source.path_of(model, dataset)).is_file():
            raise BenchmarkError(
                f"method '{name}': source.path: no such file: {source.path_of(model, dataset)}; "
                f"{EXPORT}"
            )


def config_hash(config: Config) -> str:
    """Return what equal configurations have in common, whatever files they come from."""
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()


def _entries(path: Path) -> dict[str, Any]:
    """Read a catalogue file; its names become folders and parts of command lines."""
    entries = read_yaml(path)
    for name, entry in entries.items():
        validate_name(name, str(path))
        if not isinstance(entry, dict | None):
            raise BenchmarkError(f"{path}: {name}: must be a section of keys, found {entry!r}")
    return entries


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


def _with_layer_study(
    config: Config, study: LayerStudy, load_method: LoadMethod, origin: str
) -> Config:
    """Resolve the layer study's selections, which are among those of the run."""
    where = f"{origin}: layer_study"
    models = _selected(study.models, config.models, f"{where}.models")
    datasets = _selected(study.datasets, config.datasets, f"{where}.datasets")
    sources = {name: config.models[name].source for name in models}
    own = study_methods(study, sources, load_method)
    for name in sorted({method.name for method in own} & set(config.methods)):
        raise BenchmarkError(
            f"{origin}: methods: '{name}' is a name that the layer study uses; rename this entry"
        )
    shared = tuple(
        method.shared({name: config.methods[name] for name in config.methods_of(method.model)})
        for method in own
    )
    return config.model_copy(update={"study_methods": shared, "study_datasets": tuple(datasets)})


def _with_trust(config: Config, trust: Trust, available: Iterable[str], origin: str) -> Config:
    """Resolve the selections of the test of the metrics, and make its controls and twins."""
    where = f"{origin}: trust"
    models = _selected(trust.models, config.models, f"{where}.models")
    datasets = _selected(trust.datasets, config.datasets, f"{where}.datasets")
    wanted = _selected(trust.twin_methods, available, f"{where}.twin_methods")
    own = [name for name in config.methods if name in wanted]
    found = {
        name: given_method(control, control.label, "control")
        for name, control in controls(trust).items()
    }
    permuted = {
        name: given_method(
            twin,
            f"{config.methods[twin.method].label}, permuted",
            config.methods[twin.method].family,
        )
        for name, twin in twins(trust, own).items()
    }
    for name in sorted((found.keys() | permuted.keys()) & config.evaluated_methods.keys()):
        raise BenchmarkError(
            f"{origin}: methods: '{name}' is a name that `trust` uses; rename this entry"
        )
    if not trust.twins and not any(config.datasets[name].has_evidence for name in datasets):
        raise BenchmarkError(
            f"{where}: leaves nothing to do: none of its datasets ({', '.join(datasets)}) has "
            "known evidence, and twins is 0"
        )
    changes = {"trust_models": tuple(models), "trust_datasets": tuple(datasets)}
    return config.model_copy(update={"controls": found, "twins": permuted, **changes})


def _with_sanity(config: Config, sanity: Sanity, available: Iterable[str], origin: str) -> Config:
    """Resolve the selections of the sanity checks, which are among those of the run."""
    where = f"{origin}: sanity"
    models = _selected(sanity.models, config.models, f"{where}.models")
    datasets = _selected(sanity.datasets, config.datasets, f"{where}.datasets")
    wanted = _selected(sanity.methods, available, f"{where}.methods")
    found = {}
    for model in models:
        entry = config.models[model]
        if entry.quantization != "none":
            raise BenchmarkError(
                f"{where}.models: the weights of '{model}' are quantised ({entry.quantization}), "
                "so they cannot be drawn anew"
            )
        layers = sorted({min(k, decoder_layers(entry.source) or k) for k in sanity.layers})
        found[model] = {
            name: randomised(name, config.methods[name], layers)
            for name in config.methods_of(model)
            if name in wanted and config.methods[name].file is not None
        }
    return config.model_copy(update={"sanity": found, "sanity_datasets": tuple(datasets)})


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
        if not isinstance(current, str):
            raise BenchmarkError(f"{where[name]}: {name}: extends: must be a name, found {current}")
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


def _with_resources(name: str, entry: dict[str, Any], run_file: RunFile) -> dict[str, Any]:
    """Return a model's entry with the resources that the run file gives its jobs."""
    if name not in run_file.resources:
        return entry
    changes = run_file.resources[name].model_dump(exclude_unset=True)
    return {**entry, "resources": {**(entry.get("resources") or {}), **changes}}


def _with_local_root(
    entry: dict[str, Any], schema: type[Strict], local_root: str | None, where: str
) -> dict[str, Any]:
    """Return an entry with the keys that it has only where the run has a `local_root`."""
    changes = entry.get("with_local_root", {})
    if not isinstance(changes, dict):
        raise BenchmarkError(f"{where}: with_local_root: must be keys with values, found {changes}")
    for key in changes:
        if key not in schema.model_fields:
            raise BenchmarkError(
                f"{where}: with_local_root.{key}: unknown key"
                + did_you_mean(key, schema.model_fields)
            )
    own = {key: value for key, value in entry.items() if key != "with_local_root"}
    return own if local_root is None else {**own, **changes}


def _fill_local_root(entry: dict[str, Any], local_root: str | None, origin: str) -> dict[str, Any]:
    """Replace `{local_root}` in a source's path, or in each of its paths."""
    source = entry.get("source")
    if not isinstance(source, dict) or "{local_root}" not in str(source.get("path", "")):
        return entry
    given = source["path"]
    paths = [str(path) for path in (given if isinstance(given, list | tuple) else [given])]
    if local_root is None:
        needy = next(path for path in paths if "{local_root}" in path)
        raise BenchmarkError(
            f"{origin}: local_root: not set, but '{needy}' needs it; "
            "add `--config local_root=DIR` to the command line"
        )
    filled = [path.replace("{local_root}", str(local_root)) for path in paths]
    path = filled if isinstance(given, list | tuple) else filled[0]
    return {**entry, "source": {**source, "path": path}}


def _check_references(config: Config, origin: str) -> None:
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
    if entry.source.kind == "trained":
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
    source: TrainedModel | TrainedMaskedModel, config: Config, where: str
) -> None:
    embedded = {k for k, v in config.datasets.items() if v.source.kind == "embedded"}
    for dataset in source.datasets:
        if dataset not in embedded:
            raise BenchmarkError(
                f"{where}: '{dataset}' is no selected embedded dataset"
                + did_you_mean(dataset, embedded)
            )
