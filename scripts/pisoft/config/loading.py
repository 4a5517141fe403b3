"""Reading a run file with the catalogue entries it selects.

Unknown keys are forbidden, and every error names the file, the key path, the bad value, what is
allowed and the nearest match (:mod:`pisoft.config.validation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pisoft.config.base import Selection, Strict
from pisoft.config.datasets import DatasetEntry
from pisoft.config.entries import (
    catalogue_entries,
    extended,
    fill_local_root,
    with_local_root,
    with_resources,
)
from pisoft.config.methods import LoadMethod, MethodEntry, resolve_method
from pisoft.config.models import MaskedModelEntry, ModelEntry
from pisoft.config.references import check_references, check_restrictions
from pisoft.config.resolved import Config
from pisoft.config.run_file import RunFile
from pisoft.config.sections import with_layer_study, with_operators, with_sanity, with_trust
from pisoft.config.validation import read_yaml, selected, validate
from pisoft.errors import BenchmarkError

CATALOGUES = ("models", "masked_models", "datasets", "methods")


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
        listed = catalogue_entries(path)
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
        chosen = selected(selection, available, f"{origin}: {key}")
        given = {name: extended(name, available, where) for name in chosen}
        if kind == "models":
            selected(run_file.resources, available, f"{origin}: resources")
            given = {name: with_resources(name, given[name], run_file) for name in chosen}
        entries[kind] = {}
        for name, entry in given.items():
            place, schema = f"{where[name]}: {name}", entry_types[kind]
            placed = with_local_root(entry, schema, run_file.local_root, place)
            filled = fill_local_root(placed, run_file.local_root, origin)
            entries[kind][name] = validate(schema, filled, place)
    methods = {
        name: resolve_method(name, entry, load_method, f"{origin}: method '{name}'")
        for name, entry in entries.pop("methods").items()
    }
    config = Config(run_file=run_file, methods=methods, **entries)
    check_restrictions(config, names, origin)
    check_references(config, origin)
    if run_file.layer_study is not None:
        config = with_layer_study(config, run_file.layer_study, load_method, origin)
    if run_file.trust is not None:
        config = with_trust(config, run_file.trust, names["methods"], origin)
    if run_file.operators is not None:
        config = with_operators(config, run_file.operators, names["methods"], origin)
    if run_file.sanity is not None:
        config = with_sanity(config, run_file.sanity, names["methods"], origin)
    return config


def _selection(run_file: RunFile, kind: str) -> tuple[str, Selection]:
    """Return the key of the run file that selects from a catalogue, and what it selects."""
    if kind == "masked_models":
        return "masked_model", (run_file.masked_model,)
    return kind, getattr(run_file, kind)
