"""Print what a run will cost: jobs, forwards, tokens, FLOPs, time, memory and disk."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from snakemake.cli import parse_config
from snakemake.utils import update_config

from pisoft.attribution import load_method
from pisoft.commandline import run
from pisoft.config.loading import load_run
from pisoft.config.slices.plan import plan_slice
from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError
from pisoft.planning.plan import plan_run
from pisoft.planning.report import plan_text
from pisoft.planning.speed import flops_per_second, given_speed, measured_speed

CONFIG_FOLDER = Path(__file__).parents[1] / "config"


def main(arguments: argparse.Namespace) -> None:
    """Validate the run file, plan its jobs and print them."""
    raw = read_yaml(arguments.configfile)
    update_config(raw, settings_of(arguments.config))
    config = load_run(raw, [arguments.configfile], CONFIG_FOLDER, load_method)
    plan = plan_run(plan_slice(config), Path("results", config.run_file.run))
    if arguments.throughput is None:
        speed = measured_speed(config.models)
    else:
        speed = given_speed(flops_per_second(arguments.throughput), config.models)
    print(f"Run '{config.run_file.run}', {arguments.configfile}\n")
    print(plan_text(plan, speed))


def settings_of(pairs: list[str]) -> dict[str, Any]:
    """Read keys of the run file from KEY=VALUE as Snakemake reads its `--config`.

    Raises:
        BenchmarkError: it would refuse one, too.
    """
    try:
        return parse_config(pairs)
    except ValueError as error:
        raise BenchmarkError(f"--config: {error} Got: {' '.join(pairs)}") from error


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configfile", type=Path, default=CONFIG_FOLDER / "config.yaml")
    parser.add_argument(
        "--config",
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help="keys of the run file, as for snakemake: max_samples=8 local_root=DIR",
    )
    parser.add_argument(
        "--throughput",
        metavar="TFLOP/S",
        help="what the device reaches in forwards; else measured on this machine",
    )
    return parser


if __name__ == "__main__":
    run(main, parser())
