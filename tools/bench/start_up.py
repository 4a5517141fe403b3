"""Overhead of a job: CPU seconds of every kind of job on tiny inputs.

`make bench-start-up RUN=results/demo`. Repeats one job of a finished run, with its settings, for
every script that runs a model or prepares its input; for training, tables and figures, only the
imports. Prints a table and writes results/bench/start_up.json, a list of
{name, value, unit, peer, ratio, aim, met}.

Values are medians of user and system time of the whole process, including its exit, which depend
less than wall-clock time on the machine's other load. They are compared with the cost of importing
torch and a model's class, or, with `--against`, with the scripts of another checkout, in turn.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measuring import REPOSITORY, Row, bench_parser, report, row, usage_of
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import read_provenance
from pisoft.workflow.commandline import run

LIBRARIES = ["-c", "import torch; from transformers import LlamaForCausalLM"]
IMPORTS_ONLY = ("train_model", "tabulate_results", "plot_results")
Command = list[str]

logger = logging.getLogger(__name__)


def model_jobs(run: Path, model: str, method: str, dataset: str, made: Path) -> Iterator[Command]:
    """Yield script and arguments of the jobs of one model, method and dataset of a run."""
    prompts = run / f"data/prompts/{model}/{dataset}.parquet"
    generations = run / f"data/generations/{model}/{dataset}.parquet"
    attributions = run / f"data/attributions/{model}/{method}/{dataset}.parquet"
    ranking = run / f"data/ranking/{model}/{method}/{dataset}.parquet"
    soft = sorted(run.glob(f"data/soft/*/{model}/{method}/{dataset}.parquet"))
    samples = run / f"data/samples/{dataset}.parquet"
    records = run / f"data/datasets/{dataset}.parquet"
    weights = {"model": run / f"data/models/{model}/config.json"}
    read = {"prompts": prompts, "generations": generations}
    for script, result, inputs in (
        ("sample_dataset", samples, {"records": records}),
        ("build_prompts", prompts, {"samples": samples, **weights}),
        ("generate", generations, {"prompts": prompts, **weights}),
        ("attribute", attributions, {**read, **weights}),
        *(("evaluate_soft", r, {**read, "attributions": attributions, **weights}) for r in soft),
        ("evaluate_ranking", ranking, {**read, "attributions": attributions, **weights}),
    ):
        if not result.is_file():
            raise BenchmarkError(f"{result}: no such file; name a finished run of a trained model")
        options = {"settings": json.dumps(read_provenance(result)["settings"]), **inputs}
        options["output"] = made / "out.parquet"
        if script == "attribute":
            options["times"] = made / "times.parquet"
        yield [
            script,
            *(text for name, value in options.items() for text in (f"--{name}", str(value))),
        ]


def rows(jobs: list[Command], against: Path | None, repetitions: int) -> Iterator[Row]:
    """Measure each job and its reference in turn, and yield a line for each."""
    peer = "torch and Llama" if against is None else "the other checkout"
    for script, *arguments in jobs:
        file = f"scripts/{script}.py"
        ours = [str(REPOSITORY / file), *arguments]
        theirs = LIBRARIES if against is None else [str(against / file), *arguments]
        turns = [[usage_of(c).cpu_seconds for c in (ours, theirs)] for _ in range(repetitions)]
        value, compared = map(statistics.median, zip(*turns, strict=True))
        name = f"{script}, imports only" if arguments == ["--help"] else script
        logger.info("%s: %.2f CPU s, %s: %.2f", name, value, peer, compared)
        yield row(name, value, f"{peer}: {compared:.2f}", value / compared, unit="CPU s")


def main(arguments: argparse.Namespace) -> None:
    """Run the jobs, print and write."""
    chosen = (arguments.model, arguments.method, arguments.dataset)
    with tempfile.TemporaryDirectory(prefix="pisoft-bench-") as folder:
        # One evaluation is enough: protocols differ only in their work.
        jobs = {job[0]: job for job in model_jobs(arguments.run, *chosen, Path(folder))}
        jobs |= {script: [script, "--help"] for script in IMPORTS_ONLY}
        measured = list(rows(list(jobs.values()), arguments.against, arguments.repetitions))
    report(measured, arguments.output)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "start_up")
    parser.add_argument("--run", type=Path, default=Path("results/demo"), help="a finished run")
    parser.add_argument("--model", default="demo-llama")
    parser.add_argument("--method", default="saliency")
    parser.add_argument("--dataset", default="demo-sentiment")
    parser.add_argument("--against", type=Path, help="another checkout of this repository")
    parser.add_argument("--repetitions", type=int, default=3)
    return parser


if __name__ == "__main__":
    run(main, parser())
