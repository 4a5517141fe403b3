"""Print what a run will cost: jobs, tokens, FLOPs, time and GPU-hours."""

from __future__ import annotations

import argparse
from pathlib import Path
from textwrap import fill

from pisoft.attribution import load_method
from pisoft.config.commandline import run_file, run_file_parser
from pisoft.config.loading import load_run
from pisoft.cost.limits import CPU_SPEED, GPU_SPEED
from pisoft.cost.plan import costs_by_pi, plan_run
from pisoft.cost.report import flops_per_second, plan_text
from pisoft.workflow.commandline import run

CONFIG_FOLDER = Path(__file__).parents[1] / "config"


def main(arguments: argparse.Namespace) -> None:
    """Validate the run file, plan its jobs and print them."""
    throughput = arguments.throughput
    rate = None if throughput is None else flops_per_second(throughput)
    raw, files = run_file(arguments)
    config = load_run(raw, files, CONFIG_FOLDER, load_method)
    results = Path("results", config.run_file.run)
    plan = plan_run(config, results)
    print(f"Run '{config.run_file.run}', {', '.join(map(str, files))}\n")
    print(plan_text(plan, rate))
    evaluation, stored = config.run_file.evaluation, results / "data/soft"
    if evaluation.pi_per_step is not None or stored.is_dir():
        from pisoft.statistics.pi_per_step import advice  # pandas, which other plans save

        on_gpu = any(model.resources.gpu for model in config.models.values())
        costs = costs_by_pi(config, results, rate or (GPU_SPEED if on_gpu else CPU_SPEED))
        if text := advice(stored, evaluation, costs):
            print(fill(text, 80, subsequent_indent="  "))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = run_file_parser(__doc__, CONFIG_FOLDER / "config.yaml")
    parser.add_argument(
        "--throughput",
        metavar="TFLOP/S",
        help="what the device reaches in forwards; without it, no time is shown",
    )
    return parser


if __name__ == "__main__":
    run(main, parser())
