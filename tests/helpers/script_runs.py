"""Run the scripts of summaries, tables and figures with the arguments that rules pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pisoft
from pisoft.config.jobs.displays import DisplayJob
from pisoft.store.parquet import read_rows

SCRIPTS = Path(pisoft.__file__).parents[1]
SUMMARISE, TABULATE, PLOT = "summarise_results", "tabulate_results", "plot_results"

Settings = Any
"""A slice of the configuration, or the content of its JSON."""
Paths = Mapping[str, Path | Sequence[Path]]
"""One or more files of each kind."""


def summarise(name: str, settings: Settings, files: Paths, outputs: Mapping[str, Path]) -> None:
    """Write a summary's files, by kind."""
    main(SUMMARISE, *arguments(name, settings, files), "--outputs", *pairs(outputs))


def summary_rows(
    name: str, settings: Settings, files: Paths, folder: Path, kind: str | None = None
) -> list[dict[str, Any]]:
    """Write a summary of one file, whose kind may have another name, and return its rows."""
    kind = kind or name
    output = folder / f"{kind}.parquet"
    summarise(name, settings, files, {kind: output})
    return read_rows(output, kind)


def display_arguments(path: str, settings: Settings, files: Paths, folder: Path) -> list[str]:
    """Return the arguments of a script that draws a table or a figure.

    Args:
        path: name of the display, and its cell.
        settings: all display settings, or overrides of the defaults.
        files: a file by kind, or the pattern of several.
        folder: output folder.
    """
    written = settings if isinstance(settings, DisplayJob) else display_settings(**settings)
    return [
        *("--settings", written.to_json(), "--folder", str(folder)),
        *("--files", *pairs(files), "--show", path),
    ]


def display_settings(**settings: Any) -> DisplayJob:
    """Return settings of tables and figures: simple defaults with overrides."""
    names = {"models": {}, "datasets": {}, "methods": {}} | settings
    plain = {
        "methods_of": dict.fromkeys(names["models"], tuple(names["methods"])),
        "families": dict.fromkeys(names["methods"], "gradient"),
        "types": dict.fromkeys(names["models"], "bfloat16"),
        **{"baselines": (), "imported": (), "controls": {}, "clamp": "draw"},
        **{"score_floor": 1e-4, "top_share": 0.25, "equivalence_margin": None},
        "targets": dict.fromkeys(names["datasets"], ("label",)),
        "shards": (uncut := {name: dict.fromkeys(names["datasets"]) for name in names["models"]}),
        **{"half_shards": uncut, "evaluation_shards": uncut, "in_half_shards": ()},
    }
    return DisplayJob(**plain | names)


def arguments(name: str, settings: Settings, files: Paths) -> list[str]:
    """Return the arguments of the summary script, without its outputs."""
    written = settings.to_json() if hasattr(settings, "to_json") else json.dumps(settings)
    return [name, "--settings", written, "--files", *pairs(files)]


def pairs(files: Paths) -> list[str]:
    """Return files as KIND=FILE."""
    listed = {kind: [one] if isinstance(one, Path) else one for kind, one in files.items()}
    return [f"{kind}={path}" for kind, paths in listed.items() for path in paths]


def main(script: str, *line: str) -> None:
    """Run a script in this process."""
    spec = spec_from_file_location(f"script_{script}", SCRIPTS / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(module.parser().parse_args(line))


def call(script: str, *line: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in its own process, where only the script gives access to the package."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, str(SCRIPTS / f"{script}.py"), *map(str, line)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )
