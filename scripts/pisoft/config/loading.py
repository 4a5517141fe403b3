"""Reading a run file with the catalogue entries it selects.

Unknown keys are forbidden, and every error names the file, the key path, the bad value, what is
allowed and the nearest match (:mod:`pisoft.config.validation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import RootModel

from pisoft.config.base import Name, Strict
from pisoft.config.datasets import DatasetEntry
from pisoft.config.methods import LoadMethod, MethodEntry, resolve_method
from pisoft.config.models import MaskedModelEntry, ModelEntry
from pisoft.config.references import check_labels, check_references, check_restrictions
from pisoft.config.resolved import Config
from pisoft.config.run_file import RunFile
from pisoft.config.sections import with_studies
from pisoft.config.validation import read_yaml, selected, validate
from pisoft.errors import BenchmarkError

# Schema of the entries of each catalogue.
ENTRIES: dict[str, type[Strict]] = {
    "models": ModelEntry,
    "masked_models": MaskedModelEntry,
    "datasets": DatasetEntry,
    "methods": MethodEntry,
}


def load_run(
    raw: Mapping[str, Any],
    run_files: Iterable[str | Path],
    config_folder: Path,
    load_method: LoadMethod,
) -> Config:
    """Validate the configuration that Snakemake merged from run files and command line.

    `config_folder` holds the catalogues and `config.yaml`, the default run file.

    Raises:
        BenchmarkError: see :func:`load_config`; or a run file is not plain YAML.
    """
    files = [Path(file) for file in run_files] or [config_folder / "config.yaml"]
    for file in files:
        if "__use_yte__" in read_yaml(file):
            raise BenchmarkError(
                f"{file}: __use_yte__ is not allowed: Snakemake executes Python for it, and has "
                "already done so; run files are plain YAML"
            )
    origin = ", ".join(map(str, files))
    return load_config(raw, config_folder / "catalogue", origin, load_method)


def load_config(
    raw: Mapping[str, Any], catalogue_folder: Path, origin: str, load_method: LoadMethod
) -> Config:
    """Validate a run file's content against the catalogues; messages call it `origin`.

    Raises:
        BenchmarkError: any error that is detectable without reading data or weights.
    """
    run_file: RunFile = validate(RunFile, raw, origin)
    names: dict[str, list[str]] = {}
    entries: dict[str, dict[str, Any]] = {}
    for kind, schema in ENTRIES.items():
        catalogue = _Catalogue(catalogue_folder / f"{kind}.yaml", run_file, kind, origin)
        names[kind] = list(catalogue.entries)
        key, requested = kind, getattr(run_file, kind, None)
        if kind == "masked_models":
            key, requested = "masked_model", [run_file.masked_model]
        selection = selected(requested, names[kind], f"{origin}: {key}")
        entries[kind] = {name: catalogue.entry(name, schema) for name in selection}
    pool = run_file.stop.pool if run_file.stop else {}
    for kind, key, by_name in (
        ("models", "resources", run_file.resources),
        ("datasets", "stop.pool", pool),
    ):
        selected(by_name, names[kind], f"{origin}: {key}")
    methods = {
        name: resolve_method(
            name, entry, load_method, run_file.target, f"{origin}: method '{name}'"
        )
        for name, entry in entries.pop("methods").items()
    }
    config = Config(run_file=run_file, methods=methods, **entries)
    check_restrictions(config, names, origin)
    check_references(config, origin)
    config = with_studies(config, names["methods"], load_method, origin)
    check_labels(config, origin)
    return config


Entries = dict[Name, dict[str, Any] | None]


class _Catalogue:
    """The entries of a catalogue file and of the run file, before validation."""

    def __init__(self, path: Path, run_file: RunFile, kind: str, origin: str) -> None:
        listed = validate(RootModel[Entries], read_yaml(path), str(path)).root
        added = getattr(run_file.catalogue, kind)
        for name in sorted(listed.keys() & added):
            raise BenchmarkError(
                f"{origin}: catalogue.{kind}.{name}: duplicate name; {path} has it already"
            )
        self.entries = {**listed, **added}
        self._files = dict.fromkeys(listed, str(path))
        self._in_run_file = f"{origin}: catalogue.{kind}"
        self._resources = run_file.resources if kind == "models" else {}
        self._local_root, self._origin = run_file.local_root, origin

    def entry(self, name: str, schema: type[Strict]) -> Any:
        """Return a validated entry, merged with its base (`extends`) and the run's resources."""
        where = f"{self._files.get(name, self._in_run_file)}: {name}"
        entry = self._extended(name, where)
        if name in self._resources:
            changes = self._resources[name].model_dump(exclude_unset=True)
            entry["resources"] = {**(entry.get("resources") or {}), **changes}
        if isinstance(source := entry.get("source"), dict) and "path" in source:
            entry["source"] = {**source, "path": self._placed(source["path"])}
        return validate(schema, entry, where)

    def _extended(self, name: str, where: str) -> dict[str, Any]:
        """Return an entry merged with those it extends, key by key; sections are not merged."""
        seen, entry = [name], dict(self.entries[name] or {})
        while (base := entry.pop("extends", None)) is not None:
            if not isinstance(base, str):
                raise BenchmarkError(f"{where}: extends: must be a name, found {base}")
            if base in seen:
                raise BenchmarkError(f"{where}: extends itself: {' → '.join(seen)}")
            selected([base], self.entries, f"{where}: extends")
            seen.append(base)
            entry = {**(self.entries[base] or {}), **entry}
        return entry

    def _placed(self, path: Any) -> Any:
        """Fill the run's `local_root` into a path or a list of paths."""
        if isinstance(path, list | tuple):
            return [self._placed(item) for item in path]
        if not isinstance(path, str) or "{local_root}" not in path:
            return path
        if self._local_root is None:
            raise BenchmarkError(
                f"{self._origin}: local_root: not set, but '{path}' needs it; "
                "add `--config local_root=DIR` to the command line"
            )
        return path.replace("{local_root}", self._local_root)
