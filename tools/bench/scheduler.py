"""CPU time of Snakemake's driver while jobs run, by job-rate limit: `make bench-scheduler`.

Prints a table and writes results/bench/scheduler.json: `runs`, all measurements of the best run of
each workload and setting, and `rows`, a list of {name, value, unit, peer, ratio, aim, met} with the
driver's CPU seconds, compared with the first setting.

Snakemake limits the rate of jobs, by default to 100 per second. Every round of its scheduler that
leaves jobs waiting starts a timer with the span of the limit, which triggers another round; so
every job that ends while others wait adds one round per span until no jobs wait. A longer span at
the same rate has fewer rounds, but Snakemake waits for its last timer at the end. Without a limit
there is neither timer nor wait; no option turns it off, but a hook does. Another hook, the
benchmark's own (`pisoft.workflow.internals`), allows one timer at a time.

Workloads run under each setting in turn, in a temporary folder: jobs that only write a file, then
jobs that sleep, as ours take seconds, limited first by cores, then by GPUs, where each round calls
the solver that chooses jobs. Like in the benchmark, chains of three jobs (attribution and its two
evaluations) read the code they depend on, and one job reads the ends of all chains. That takes 15
minutes; a thousand jobs without work take minutes more per setting, because a solver chooses among
all ready jobs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import REPOSITORY, Row, bench_parser, report, row
from pisoft.errors import BenchmarkError
from pisoft.progress import progress
from pisoft.workflow.commandline import run

CODE_FILES = 15  # read by each job
CHAIN = 3  # jobs
DRIVER = Path(__file__).with_name("driver.py")
LATE = 0.8  # share of the time after which the load counts as late
UNLIMITED = "no limit"
ONE_TIMER = "one-timer"
WORKFLOW = """\
CODE = [f"code/{{number}}.py" for number in range({code_files})]
CELLS = range({cells})


rule all:
    input:
        "summary.txt",


rule attribute:
    input:
        CODE,
    output:
        "attributions/{{cell}}.txt",
    log:
        "logs/attribute/{{cell}}.log",
    benchmark:
        "benchmarks/attribute/{{cell}}.tsv"
    resources:
        gpu=1,
    shell:
        "sleep {sleep} && touch {{output}} > {{log}} 2>&1"


rule evaluate:
    input:
        "attributions/{{cell}}.txt",
        CODE,
    output:
        "{{kind}}/{{cell}}.txt",
    log:
        "logs/{{kind}}/{{cell}}.log",
    benchmark:
        "benchmarks/{{kind}}/{{cell}}.tsv"
    wildcard_constraints:
        kind="soft|ranking",
    resources:
        gpu=1,
    shell:
        "sleep {sleep} && touch {{output}} > {{log}} 2>&1"


rule summarise:
    input:
        expand("{{kind}}/{{cell}}.txt", kind=["soft", "ranking"], cell=CELLS),
    output:
        "summary.txt",
    shell:
        "touch {{output}}"
"""
# Called after the scheduler is created and before its first round.
NO_LIMIT_HOOK = """

onstart:
    workflow.scheduler.job_rate_limiter = None
"""
ONE_TIMER_HOOK = """

from pisoft.workflow.internals import one_timer


onstart:
    one_timer(workflow.scheduler)
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Workload:
    """Jobs of one kind."""

    jobs: int  # approximately, without the last two
    sleep: float  # minimum seconds of each
    cores: int
    gpus: int

    @property
    def name(self) -> str:
        """Return a description of the workload."""
        kind = f"of {self.sleep:g} s" if self.sleep else "without work"
        limit = f"{self.gpus} GPUs" if self.gpus < self.cores else f"{self.cores} cores"
        return f"{self.jobs} jobs {kind} on {limit}"


@dataclass(frozen=True)
class Load:
    """Load of the driver."""

    cpu_seconds: float
    children_seconds: float  # CPU seconds of jobs and of the solver that chooses among them
    seconds: float  # without the wait
    wait: float  # seconds from the end of the work to the end of the process
    late: float  # share of a core, over the last fifth of the work
    threads: int  # maximum at a time


def measure(workload: Workload, setting: str) -> Load:
    """Run a workload in a temporary folder.

    Args:
        workload: the jobs.
        setting: a rate limit or none, then arguments of Snakemake; `one-timer` selects the
            benchmark's hook.

    Raises:
        BenchmarkError: Snakemake failed.
    """
    limit, *options = split(setting)
    with tempfile.TemporaryDirectory(prefix="pisoft-bench-") as name:
        folder = Path(name)
        hook = NO_LIMIT_HOOK if limit == UNLIMITED else ""
        if ONE_TIMER in options:
            options.remove(ONE_TIMER)
            hook = ONE_TIMER_HOOK
        make_workflow(workload, folder, hook)
        if limit != UNLIMITED:
            options += ["--max-jobs-per-timespan", limit]
        options += ["--cores", str(workload.cores), "--resources", f"gpu={workload.gpus}"]
        line = [sys.executable, str(DRIVER), "load.json", "--workflow-profile", "none", *options]
        environment = {key: os.environ[key] for key in os.environ if key != "SNAKEMAKE_PROFILE"}
        environment["PYTHONPATH"] = str(REPOSITORY / "scripts")
        completed = subprocess.run(
            line, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if completed.returncode:
            raise BenchmarkError(
                f"Snakemake has failed under {setting}:\n{completed.stderr[-2000:]}"
            )
        return load_of(json.loads((folder / "load.json").read_text(encoding="utf-8")))


def split(setting: str) -> list[str]:
    """Return the rate limit, then the options."""
    if setting.startswith(UNLIMITED):
        return [UNLIMITED, *setting.removeprefix(UNLIMITED).split()]
    return setting.split()


def make_workflow(workload: Workload, folder: Path, hook: str) -> None:
    """Write the workflow, with its own hook, and the files that it reads."""
    (folder / "code").mkdir()
    for number in range(CODE_FILES):
        (folder / f"code/{number}.py").touch()
    text = WORKFLOW.format(
        code_files=CODE_FILES, cells=max(1, workload.jobs // CHAIN), sleep=workload.sleep
    )
    (folder / "Snakefile").write_text(text + hook, encoding="utf-8")


def load_of(seen: dict[str, Any]) -> Load:
    """Return the load of a run from the output of its process."""
    seconds = seen["seconds"]
    looks = [(when, cpu) for when, cpu, _ in seen["looks"] if when <= seconds]
    late = [look for look in looks if look[0] >= LATE * seconds] or looks[-1:]
    elapsed, taken = (late[-1][key] - late[0][key] for key in (0, 1))
    return Load(
        cpu_seconds=seen["cpu_seconds"],
        children_seconds=seen["children_seconds"],
        seconds=seconds,
        wait=seen["wait"],
        late=taken / elapsed if elapsed else 0.0,
        threads=seen["threads"],
    )


# The report -----------------------------------------------------------------------------------

Runs = dict[tuple[Workload, str], Load]


def table(runs: Runs) -> Iterator[str]:
    """Return the lines of a Markdown table."""
    yield (
        "| jobs | setting | driver, CPU-s | late load, cores | jobs and solver, CPU-s "
        "| threads | work, s | wait, s |"
    )
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for (workload, setting), load in runs.items():
        yield (
            f"| {workload.name} | {setting} | {load.cpu_seconds:.1f} | {load.late:.2f} "
            f"| {load.children_seconds:.1f} | {load.threads} "
            f"| {load.seconds:.1f} | {load.wait:.1f} |"
        )


def rows_of(runs: Runs, first: str) -> Iterator[Row]:
    """Return the driver's CPU seconds, compared with the first setting."""
    for (workload, setting), load in runs.items():
        peer = runs[workload, first].cpu_seconds
        name, against = f"{workload.name}, {setting}", f"{first}: {peer:.3g} s"
        yield row(name, load.cpu_seconds, against, peer / load.cpu_seconds, unit="s")


def facts_of(runs: Runs) -> Iterable[dict[str, Any]]:
    """Return all measurements."""
    for (workload, setting), load in runs.items():
        yield {"workload": vars(workload), "setting": setting, **vars(load)}


def main(arguments: argparse.Namespace) -> None:
    """Run the workloads, print and write."""
    cores = arguments.cores
    workloads = [Workload(jobs, 0, cores, cores) for jobs in arguments.idle]
    if arguments.jobs:
        workloads += [
            Workload(arguments.jobs, arguments.sleep, *limits)
            for limits in ((cores, cores), (2 * cores, cores))
        ]
    turns = [
        (workload, setting)
        for workload in workloads
        for _ in range(arguments.repetitions)
        for setting in arguments.settings
    ]
    runs: Runs = {}
    for turn in progress(turns, len(turns), "measuring", "runs"):
        load = measure(*turn)
        logger.info("%s, %s: %.1f CPU-s", turn[0].name, turn[1], load.cpu_seconds)
        if turn not in runs or load.cpu_seconds < runs[turn].cpu_seconds:
            runs[turn] = load
    print("\n".join(table(runs)))
    rows = list(rows_of(runs, arguments.settings[0]))
    report(rows, arguments.output, runs=list(facts_of(runs)))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "scheduler")
    parser.add_argument(
        "--settings",
        nargs="+",
        default=[
            "100/1s",
            "500/5s",
            "1000/10s",
            "500/5s --scheduler greedy",
            f"500/5s --scheduler greedy {ONE_TIMER}",
            UNLIMITED,
        ],
        help=f"rate limits in Snakemake's format, or '{UNLIMITED}', each with further options",
    )
    parser.add_argument(
        "--idle", type=int, nargs="*", default=[250], help="numbers of jobs without work"
    )
    parser.add_argument("--jobs", type=int, default=150, help="number of jobs that sleep")
    parser.add_argument("--sleep", type=float, default=1.0, help="seconds that each of them sleeps")
    parser.add_argument("--cores", type=int, default=3, help="jobs at a time")
    parser.add_argument("--repetitions", type=int, default=1, help="runs; the best counts")
    return parser


if __name__ == "__main__":
    run(main, parser())
