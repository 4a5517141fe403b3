"""Summaries, tables and figures made by their scripts, which are called as the rules call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

import pisoft
from pisoft.columns import SCHEMAS
from pisoft.contracts import write_table

SCRIPTS = Path(pisoft.__file__).parents[1]
SUMMARISE, TABULATE, PLOT = "summarise_results", "tabulate_results", "plot_results"
FORMATS = {TABULATE: ("csv", "tex", "html"), PLOT: ("pdf", "svg", "png")}

Settings = Any
"""A slice of the configuration, or what its JSON holds."""
Paths = Mapping[str, Path | Sequence[Path]]
"""One file or more of each kind."""


def summarise(name: str, settings: Settings, files: Paths, outputs: Mapping[str, Path]) -> None:
    """Write a summary's files, by kind."""
    main(SUMMARISE, *arguments(name, settings, files), "--outputs", *pairs(outputs))


def tabulate(
    name: str, settings: Settings, files: Paths, folder: Path, **cell: str
) -> dict[str, Path]:
    """Write a table, and return its files by their ending."""
    return shown(TABULATE, name, settings, files, folder, **cell)


def plot(name: str, settings: Settings, files: Paths, folder: Path, **cell: str) -> dict[str, Path]:
    """Write a figure, and return its files by their ending."""
    return shown(PLOT, name, settings, files, folder, **cell)


def shown(
    script: str, name: str, settings: Settings, files: Paths, folder: Path, **cell: str
) -> dict[str, Path]:
    """Write a table or a figure, and return its files by their ending."""
    made = {ending: folder / f"{name}.{ending}" for ending in FORMATS[script]}
    outputs = [part for ending, path in made.items() for part in (f"--{ending}", str(path))]
    main(script, *arguments(name, settings, files, **cell), *outputs)
    return made


def check_same_files(
    name: str,
    settings: Settings,
    files: Paths,
    folder: Path,
    parts: Sequence[str] = ("figure",),
    **cell: str,
) -> None:
    """Check that processes that order sets in other ways draw the same files, without a warning."""
    found = []
    for seed in ("1", "2"):
        made = {end: [folder / f"{seed}-{part}.{end}" for part in parts] for end in FORMATS[PLOT]}
        outputs = [part for ending, paths in made.items() for part in (f"--{ending}", *paths)]
        line = (*arguments(name, settings, files, **cell), *outputs)
        finished = call(PLOT, *line, PYTHONHASHSEED=seed)
        assert finished.returncode == 0, finished.stderr
        assert finished.stderr == "", "no warnings in the log"
        found.append([path.read_bytes() for paths in made.values() for path in paths])
    assert found[0] == found[1]


def arguments(name: str, settings: Settings, files: Paths, **cell: str) -> list[str]:
    """Return what all three scripts are called with, before their outputs."""
    written = settings.to_json() if hasattr(settings, "to_json") else json.dumps(settings)
    line = [name, "--settings", written, "--files", *pairs(files)]
    return [*line, "--cell", *(f"{key}={name}" for key, name in cell.items())]


def pairs(files: Paths) -> list[str]:
    """Return files as KIND=FILE."""
    listed = {kind: [one] if isinstance(one, Path) else one for kind, one in files.items()}
    return [f"{kind}={path}" for kind, paths in listed.items() for path in paths]


def main(script: str, *line: str) -> None:
    """Do a script's work in this process."""
    spec = spec_from_file_location(f"script_{script}", SCRIPTS / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(module.parser().parse_args(line))


def call(script: str, *line: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, to which nothing but the script shows the package."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, str(SCRIPTS / f"{script}.py"), *map(str, line)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )


def write_frame(path: Path, kind: str, rows: pd.DataFrame) -> None:
    """Write a frame as a summary file, without the columns that the kind does not have."""
    schema = SCHEMAS[kind]
    table = pa.Table.from_pandas(rows[schema.names], schema=schema, preserve_index=False)
    write_table(path, kind, table, {})
