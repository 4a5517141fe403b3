"""Catalogue entries: read from a file, on top of what they extend, with paths filled in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pisoft.config.base import Strict
from pisoft.config.run_file import RunFile
from pisoft.config.validation import read_yaml, validate_name
from pisoft.errors import BenchmarkError, did_you_mean


def catalogue_entries(path: Path) -> dict[str, Any]:
    """Read a catalogue file; its names become folders and parts of command lines."""
    entries = read_yaml(path)
    for name, entry in entries.items():
        validate_name(name, str(path))
        if not isinstance(entry, dict | None):
            raise BenchmarkError(f"{path}: {name}: must be a section of keys, found {entry!r}")
    return entries


def extended(name: str, available: Mapping[str, Any], where: Mapping[str, str]) -> dict[str, Any]:
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


def with_resources(name: str, entry: dict[str, Any], run_file: RunFile) -> dict[str, Any]:
    """Return a model's entry with the resources that the run file gives its jobs."""
    if name not in run_file.resources:
        return entry
    changes = run_file.resources[name].model_dump(exclude_unset=True)
    return {**entry, "resources": {**(entry.get("resources") or {}), **changes}}


def with_local_root(
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


def fill_local_root(entry: dict[str, Any], local_root: str | None, origin: str) -> dict[str, Any]:
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
