"""Run files for scripts that are called by hand, outside Snakemake."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from snakemake.cli import parse_config
from snakemake.utils import update_config

from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError, did_you_mean


def run_file_parser(description: str | None, default: Path) -> argparse.ArgumentParser:
    """Return the argument parser of a script that reads a run file, by default `default`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--configfile", type=Path, nargs="+", default=[default], help="later ones change the first"
    )
    text = "keys of the run file, as for snakemake: max_samples=8 local_root=DIR"
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help=text)
    return parser


def run_file(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[Path]]:
    """Return the run files' merged content with `--config` applied, and their paths.

    Raises:
        BenchmarkError: a file is not readable, or Snakemake rejects a KEY=VALUE.
    """
    raw: dict[str, Any] = {}
    try:
        for change in (*map(read_yaml, arguments.configfile), parse_config(arguments.config)):
            update_config(raw, change)
    except ValueError as error:
        raise BenchmarkError(f"--config: {error} Got: {' '.join(arguments.config)}") from error
    return raw, arguments.configfile


def run_file_of(results: Path, config: Path) -> Path:
    """Return the run file, here or in the folder `config`, whose results go to `results`.

    Raises:
        BenchmarkError: no run file names this run.
    """
    paths = [path for folder in (config, Path()) for path in sorted(folder.glob("*.yaml"))]
    files = {content["run"]: path for path in paths if "run" in (content := read_yaml(path))}
    if results.name not in files:
        hint = did_you_mean(results.name, files)
        raise BenchmarkError(f"{results}: is the run of no run file here or in {config}{hint}")
    return files[results.name]
