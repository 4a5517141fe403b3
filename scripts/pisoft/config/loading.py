"""Reading a run file with the catalogue entries it selects.

Unknown keys are forbidden, and every error names the file, the key path, the bad value, what is
allowed and the nearest match (:mod:`pisoft.config.validation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pisoft.config.base import Strict
from pisoft.config.datasets import DatasetEntry
from pisoft.config.methods import LoadMethod, MethodEntry, resolve_method
from pisoft.config.models import MaskedModelEntry, ModelEntry
from pisoft.config.references import check_references, check_restrictions
from pisoft.config.resolved import Config
from pisoft.config.run_file import RunFile
from pisoft.config.sections import with_studies
from pisoft.config.validation import read_yaml, selected, validate, validate_name
from pisoft.errors import BenchmarkError

ENTRIES: dict[str, type[Strict]] = {
    "models": ModelEntry,
    "masked_models": MaskedModelEntry,
    "datasets": DatasetEntry,
    "methods": MethodEntry,
}
CATALOGUES = tuple(ENTRIES)


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
    run_file: RunFile = validate(RunFile, raw, origin)
    names: dict[str, list[str]] = {}
    found: dict[str, dict[str, Any]] = {}
    for kind, schema in ENTRIES.items():
        catalogue = _Catalogue(catalogue_folder / f"{kind}.yaml", run_file, kind, origin)
        names[kind] = list(catalogue.entries)
        key = "masked_model" if kind == "masked_models" else kind
        selection = getattr(run_file, key)
        selection = (selection,) if kind == "masked_models" else selection
        chosen = selected(selection, names[kind], f"{origin}: {key}")
        found[kind] = {name: catalogue.entry(name, schema) for name in chosen}
    selected(run_file.resources, names["models"], f"{origin}: resources")
    methods = {
        name: resolve_method(name, entry, load_method, f"{origin}: method '{name}'")
        for name, entry in found.pop("methods").items()
    }
    config = Config(run_file=run_file, methods=methods, **found)
    check_restrictions(config, names, origin)
    check_references(config, origin)
    return with_studies(config, names["methods"], load_method, origin)


class _Catalogue:
    """The entries of a catalogue file and of the run file, as they stand there."""

    def __init__(self, path: Path, run_file: RunFile, kind: str, origin: str) -> None:
        listed, added = read_yaml(path), getattr(run_file.catalogue, kind)
        for name in listed:  # names become folders and parts of command lines
            validate_name(name, str(path))
        for name in sorted(listed.keys() & added):
            raise BenchmarkError(
                f"{origin}: catalogue.{kind}.{name}: duplicate name; {path} has it already"
            )
        self.entries = {**listed, **added}
        self._where = dict.fromkeys(listed, str(path)) | dict.fromkeys(
            added, f"{origin}: catalogue.{kind}"
        )
        self._run_file, self._kind, self._origin = run_file, kind, origin

    def entry(self, name: str, schema: type[Strict]) -> Any:
        """Return an entry on top of the one it `extends`, with the run file's changes, checked."""
        where, root = f"{self._where[name]}: {name}", self._run_file.local_root
        entry = self._extended(name, where, ())
        if self._kind == "models" and name in self._run_file.resources:
            asked = self._run_file.resources[name].model_dump(exclude_unset=True)
            entry["resources"] = {**(entry.get("resources") or {}), **asked}
        if isinstance(entry.get("source"), dict) and "path" in entry["source"]:
            path = self._placed(entry["source"]["path"], root)
            entry["source"] = {**entry["source"], "path": path}
        return validate(schema, entry, where)

    def _extended(self, name: str, where: str, above: tuple[str, ...]) -> dict[str, Any]:
        """Return an entry on top of the one it extends, key by key (sections are not merged)."""
        entry = self.entries[name] or {}
        if not isinstance(entry, dict):
            raise BenchmarkError(f"{where}: must be a section of keys, found {entry!r}")
        if "extends" not in entry:
            return dict(entry)
        base, seen = entry["extends"], (*above, name)
        if not isinstance(base, str):
            raise BenchmarkError(f"{where}: extends: must be a name, found {base}")
        if base in seen:
            raise BenchmarkError(f"{where}: extends itself: {' → '.join(seen)}")
        selected([base], self.entries, f"{where}: extends")
        own = {key: value for key, value in entry.items() if key != "extends"}
        return self._extended(base, where, seen) | own

    def _placed(self, path: Any, root: str | None) -> Any:
        """Return a path, or each of a list, with the run's `local_root` filled in."""
        if isinstance(path, list | tuple):
            return [self._placed(one, root) for one in path]
        if not isinstance(path, str) or "{local_root}" not in path:
            return path
        if root is None:
            raise BenchmarkError(
                f"{self._origin}: local_root: not set, but '{path}' needs it; "
                "add `--config local_root=DIR` to the command line"
            )
        return path.replace("{local_root}", root)
