"""The cost of aggregating full-size results into tables and figures: `make bench-aggregation`.

Prints a table and writes results/bench/aggregation.json, a list of
{name, value, unit, peer, ratio, aim, met}. The result set has the size of the paper's run with one
routing protocol: 3 models, 12 methods, 5 datasets of 2,000 samples, 20 rows a sample (19 retaining
probabilities and the original metrics), 15 draws a row. Its numbers are noise, because only their
amount costs time. It takes 3 GB in a temporary folder (in `TMPDIR`), which is deleted at the end;
the minutes to create it are not counted.

Then all jobs that read per-draw values, their summaries, or statistics of these run one at a time,
called like in their rules. Wall-clock and CPU seconds of a rule are sums over its jobs, memory is
their maximum. Jobs that read scores or texts are left out, and files derived from such (timings,
generations) have no rows.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from measuring import REPOSITORY, Row, Usage, bench_parser, report, row, usage_of
from pisoft.attribution import load_method
from pisoft.config.cells import Cell
from pisoft.config.jobs import JOBS
from pisoft.config.jobs.cells import GenerateJob, ranked_datasets
from pisoft.config.loading import load_config
from pisoft.config.resolved import Config
from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError
from pisoft.progress import progress
from pisoft.store.parquet import OK, provenance, write_rows, write_table
from pisoft.store.schemas import FILES, SCHEMAS
from pisoft.views.registry import ENDINGS, displays_in
from pisoft.workflow.commandline import run

CONFIG = REPOSITORY / "config"
SECONDS_AIM = 300.0
MEMORY_AIM = 4 * 2**30  # bytes
DRAWS = 15
FAILED = 100  # one sample in this many has a zero baseline as good as the clean input

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One call of a rule's script."""

    rule: str
    script: str
    line: list[str]  # the script's arguments
    made: tuple[Path, ...]  # output files
    threads: int = 1


# Tables and figures whose inputs the bench creates.
TABLES = (
    *("pi_soft_auc", "original_soft", "variance_components", "insertion_deletion"),
    *("ranks", "advantage", "sensitivity"),
)
FIGURES = (
    *("metric_agreement", "advantage", "sensitivity", "ranks"),
    *("pi_curves", "pi_curves_all"),
)


# The result set -------------------------------------------------------------------------------


def configure(arguments: argparse.Namespace) -> Config:
    """Return the paper's run with given numbers of models, methods and datasets, fully crossed.

    Raises:
        BenchmarkError: a number is too large.
    """
    content = read_yaml(CONFIG / "paper.yaml")
    for crossing in ("restrictions", "layer_study"):
        del content[crossing]
    content["run"] = "bench"
    content["protocols"] = ["dynamic"]
    content["methods"] = list(read_yaml(CONFIG / "catalogue/methods.yaml"))
    for kind in ("models", "methods", "datasets"):
        count, names = getattr(arguments, kind), content[kind]
        if not 1 <= count <= len(names):
            raise BenchmarkError(f"--{kind} {count}: allowed are 1 to {len(names)}")
        content[kind] = names[:count]
    return load_config(content, CONFIG / "catalogue", "the bench of aggregation", load_method)


def make_results(config: Config, samples: int, root: Path) -> None:
    """Write the inputs of jobs that no job creates, in the folder of a run."""
    grid = config.run_file.evaluation.pi_grid
    noise = Noise(samples * (1 + len(grid)) * DRAWS)
    ranked = ranked_datasets(config)
    cells = config.cells()
    for number, cell in enumerate(progress(cells, len(cells), "making", "cells")):
        dataset = cell.dataset
        names = pa.array([f"{dataset}-{sample:05}" for sample in range(samples)])
        path = cell_file(root, "soft", cell)
        write_table(path, "soft", soft_table(noise, number, names, grid), {})
        if dataset in ranked:
            path = cell_file(root, "ranking", cell)
            write_table(path, "ranking", ranking_table(noise, number, names), {})
    for model in config.models:
        for dataset in config.datasets:
            settings = GenerateJob.from_config(config, model=model, dataset=dataset)
            origin = provenance(settings.model_dump(mode="json"), device="none")
            path = cell_path(root / "generations", model, dataset)
            write_rows(path, "generations", [], origin)
    write_rows(root / "summary/timings.parquet", "timings", [], {})


class Noise:
    """Uniform numbers, drawn once; every column of every cell is a different part of them."""

    def __init__(self, size: int) -> None:
        """Draw enough for columns of `size` numbers."""
        self._numbers = np.random.default_rng(0).random(2 * size, dtype=np.float32)
        self._offsets = np.random.default_rng(1)

    def take(self, size: int) -> np.ndarray:
        """Return the next numbers, (size,) float32."""
        first = self._offsets.integers(len(self._numbers) - size)
        return self._numbers[first : first + size]


def soft_table(noise: Noise, number: int, names: pa.Array, grid: Iterable[float]) -> pa.Table:
    """Return rows of `soft` whose means depend on the cell's number."""
    pi = np.array([np.nan, *grid])
    samples, width = len(names), len(pi)
    rows = samples * width
    sample = np.repeat(np.arange(samples), width)
    h0 = 0.5 + noise.take(samples).astype(float) / 2
    h0[FAILED - 1 :: FAILED] = 0.0
    reach = 0.6 + 0.3 * (number * 7 % 11) / 11  # largest distance of the cell

    def drawn() -> pa.Array:
        ends = pa.array(np.arange(0, rows * DRAWS + 1, DRAWS, dtype=np.int32))
        return pa.ListArray.from_arrays(ends, np.float32(reach) * noise.take(rows * DRAWS))

    columns = {
        "sample_id": names.take(pa.array(sample)),
        "step": np.zeros(rows, np.int32),
        "pi": pa.array(np.tile(pi, samples), from_pandas=True),
        "perturbable": np.full(rows, 200, np.int32),
        "alpha": 2 * noise.take(rows).astype(float),
        "achieved": np.tile(np.nan_to_num(pi, nan=0.3), samples),
        "feasible": np.ones(rows, bool),
        "floored": np.ones(rows, np.int32),
        "ceiled": np.ones(rows, np.int32),
        "h0": h0[sample],
        "identity": 1e-7 * noise.take(samples).astype(float)[sample],
        **dict.fromkeys(("h0_noise", "ns_noise", "nc_noise"), pa.nulls(rows, pa.float64())),
        **{field.name: drawn() for field in SCHEMAS["soft"] if pa.types.is_list(field.type)},
        "status": np.full(rows, OK),
    }
    return pa.table(columns, schema=SCHEMAS["soft"])


def ranking_table(noise: Noise, number: int, names: pa.Array) -> pa.Table:
    """Return rows of `ranking` whose means depend on the cell's number."""
    steps, rows = 20, 2 * len(names)
    flips = noise.take(rows * steps).reshape(rows, steps) < 0.3 + 0.3 * (number * 7 % 11) / 11
    ends = pa.array(np.arange(0, rows * steps + 1, steps, dtype=np.int32))
    columns = {
        "sample_id": names.take(pa.array(np.repeat(np.arange(len(names)), 2))),
        "curve": np.tile(["deletion", "insertion"], len(names)),
        "perturbable": np.full(rows, 200, np.int32),
        "flips": pa.ListArray.from_arrays(ends, pa.array(flips.ravel())),
        "log_probabilities": pa.nulls(rows, SCHEMAS["ranking"].field("log_probabilities").type),
        "auc": flips.mean(axis=1),
        "status": np.full(rows, OK),
    }
    return pa.table(columns, schema=SCHEMAS["ranking"])


def cell_file(root: Path, kind: str, cell: Cell) -> Path:
    """Return a cell's file of a kind."""
    return root / f"{FILES[kind].path}.parquet".format(**cell.wildcards)


def cell_path(folder: Path, *names: str) -> Path:
    """Return the Parquet file of a cell; names may contain dots."""
    return folder.joinpath(*names[:-1], f"{names[-1]}.parquet")


# The jobs -------------------------------------------------------------------------------------


def jobs(config: Config, root: Path) -> Iterator[Job]:
    """Return the jobs in the order of the workflow: writers of files come before their readers."""
    yield from summary_jobs(config, root)
    yield from display_jobs(config, root)
    yield from page_jobs(config, root)


def summary_jobs(config: Config, root: Path) -> Iterator[Job]:
    """Return the jobs that read every cell or every sample."""
    files, ranked = summary_files(root), ranked_datasets(config)
    cells = config.cells()
    soft = [cell_file(root, "soft", cell) for cell in cells]
    ranking = [cell_file(root, "ranking", cell) for cell in cells if cell.dataset in ranked]
    samples = [files["soft_samples"], files["ranking_samples"]]
    statistics = ("statistics", "comparisons", "ranks", "variance_components", "coverage", "noise")
    curves = ("curves", "soft_sample_curves")
    curve_files = {kind: [files[kind]] for kind in curves}
    for rule, name, slice_name, given, kinds, threads in (
        ("summarise", "soft", "summarise", {"soft": soft}, ("soft_samples", *curves), 1),
        ("summarise_advantage", "advantage", "resampling", curve_files, ("advantage",), 1),
        ("summarise_sensitivity", "sensitivity", "sensitivity", {"soft": soft},
         ("sensitivity",), 2),
        ("summarise_ranking", "insertion_deletion", "summarise_ranking", {"ranking": ranking},
         ("ranking_samples",), 1),
        ("estimate_uncertainty", "uncertainty", "uncertainty", {"samples": samples}, statistics, 2),
    ):  # fmt: skip
        made = {kind: files[kind] for kind in kinds}
        settings = slice_of(config, slice_name, {})
        line = [name, *options(settings=settings, files=pairs(given), outputs=pairs(made))]
        yield Job(rule, "summarise_results", line, tuple(made.values()), threads)


def display_jobs(config: Config, root: Path) -> Iterator[Job]:
    """Return the job of all tables, and one job per kind of figure."""
    yield display_job(config, root, "tabulate", "tables", TABLES, warning="")
    for name in FIGURES:
        yield display_job(config, root, f"plot_{name}", "figures", (name,))


def display_job(
    config: Config, root: Path, rule: str, room: str, names: Iterable[str], **more: str
) -> Job:
    """Return the job of given tables or figures."""
    displays = {name: display for name, display in displays_in(room).items() if name in names}
    kinds = dict.fromkeys(kind for display in displays.values() for kind in display.reads)
    read = {kind: FILES[kind].pattern for kind in kinds}
    shown = [
        pattern.format(**cell)
        for name, display in displays.items()
        for pattern in display.patterns(name)
        for cell in cells_of(config, display.by)
    ]
    folder, script = root / room, {"tables": "tabulate_results", "figures": "plot_results"}[room]
    line = options(
        settings=slice_of(config, "display", {}),
        files=pairs({kind: root / f"{path}.parquet" for kind, path in read.items()}),
        **more,
        folder=folder,
        show=shown,
    )
    made = tuple(folder / f"{path}.{ENDINGS[room][-1]}" for path in shown)
    return Job(rule, script, line, made)


def page_jobs(config: Config, root: Path) -> Iterator[Job]:
    """Return the pages about all models."""
    files, published = summary_files(root), root / "published"
    made = {kind: published / f"{kind}.csv" for kind in ("cells", "agreement", "robustness")}
    made |= {kind: published / f"against_paper.{kind}" for kind in ("tex", "html")}
    given = {kind: files[kind] for kind in ("statistics", "timings")}
    settings = slice_of(config, "published", {})
    line = options(settings=settings, files=pairs(given), outputs=pairs(made), links=[], warning="")
    yield Job("compare_with_paper", "compare_with_paper", line, tuple(made.values()))
    kinds = ("statistics", "comparisons", "ranks", "coverage", "variance_components")
    (cell, *_) = cells_of(config, ("protocol", "model", "dataset"))
    names = {"html": "index.html", "docs": "docs.html", "verdicts": "verdicts.txt"}
    made = {kind: root / name for kind, name in names.items()}
    given = {kind: files[kind] for kind in kinds}
    given["figure"] = root / "figures/pi_curves/{protocol}/{model}/{dataset}.svg".format(**cell)
    # Only their provenance is read.
    generations = list((root / "generations").glob("*/*.parquet"))
    computed = dict.fromkeys(("generations", "attributions", "soft"), generations)
    line = options(
        settings=slice_of(config, "index", {}),
        files=[*pairs(given), *pairs(computed)],
        links=["Explorer=explorer.html"],
        warning="",
        outputs=pairs(made),
    )
    yield Job("build_index", "build_index", line, tuple(made.values()))


def summary_files(root: Path) -> dict[str, Path]:
    """Return the summary files by kind."""
    return {kind: root / f"summary/{kind}.parquet" for kind in SCHEMAS}


def cells_of(config: Config, keys: Iterable[str]) -> list[dict[str, str]]:
    """Return the distinct values of given wildcards over the cells of a run."""
    cells = [cell.keys for cell in config.cells()]
    combinations = dict.fromkeys(tuple((key, cell[key]) for key in keys) for cell in cells)
    return [dict(pairs) for pairs in combinations]


def slice_of(config: Config, name: str, cell: Mapping[str, str]) -> str:
    """Return a job's settings as JSON."""
    return JOBS[name].from_config(config, **cell).to_json()


def pairs(values: Mapping[str, Any]) -> list[str]:
    """Return KEY=VALUE of every value."""
    return [f"{key}={item}" for key, value in values.items() for item in listed(value)]


def options(**values: Any) -> list[str]:
    """Return a script's command line options; a list becomes one option with several values."""
    line = []
    for name, value in values.items():
        line += [f"--{name.replace('_', '-')}", *map(str, listed(value))]
    return line


def listed(value: Any) -> list[Any]:
    """Return a list unchanged, any other value as a list of one."""
    return value if isinstance(value, list) else [value]


def measure(task: Job) -> Usage:
    """Run a job like Snakemake: create its folders, and use its rule's number of threads.

    Raises:
        BenchmarkError: the job failed.
    """
    for path in task.made:
        path.parent.mkdir(parents=True, exist_ok=True)
    return usage_of([REPOSITORY / f"scripts/{task.script}.py", *task.line], task.threads)


# The report -----------------------------------------------------------------------------------


def rows_of(by_rule: Mapping[str, list[Usage]]) -> Iterator[Row]:
    """Return the usage of each rule's jobs, then of all jobs."""
    for rule, used in by_rule.items():
        name = rule if len(used) == 1 else f"{rule} ({len(used)} jobs)"
        yield from usage_rows(name, used, None)
    used = [usage for rule_usage in by_rule.values() for usage in rule_usage]
    yield from usage_rows(f"all {len(used)} jobs", used, 1.0)


def usage_rows(name: str, used: list[Usage], aim: float | None) -> Iterator[Row]:
    """Return time and memory of jobs run one at a time, against the limits for all."""
    seconds = sum(usage.seconds for usage in used)
    cpu_seconds = sum(usage.cpu_seconds for usage in used)
    memory = max(usage.memory for usage in used)
    limit = f"limit: {SECONDS_AIM:.0f} s"
    yield row(f"{name}: wall clock", seconds, limit, SECONDS_AIM / seconds, unit="s", aim=aim)
    clock = f"wall clock: {seconds:.3g} s"
    yield row(f"{name}: CPU", cpu_seconds, clock, cpu_seconds / seconds, unit="s")
    limit, ratio = f"limit: {MEMORY_AIM / 2**30:.0f} GiB", MEMORY_AIM / memory
    yield row(f"{name}: memory", memory / 2**30, limit, ratio, unit="GiB", aim=aim)


def main(arguments: argparse.Namespace) -> None:
    """Create the result set, run the jobs, print and write."""
    config = configure(arguments)
    by_rule: dict[str, list[Usage]] = {}
    with tempfile.TemporaryDirectory(prefix="pisoft-bench-") as folder:
        root = Path(folder)
        make_results(config, arguments.samples, root)
        for task in jobs(config, root):
            used = measure(task)
            logger.info("%s: %.1f s", task.rule, used.seconds)
            by_rule.setdefault(task.rule, []).append(used)
    report(list(rows_of(by_rule)), arguments.output)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = bench_parser(__doc__, "aggregation")
    parser.add_argument("--models", type=int, default=3, help="number of models")
    parser.add_argument("--methods", type=int, default=12, help="number of methods")
    parser.add_argument("--datasets", type=int, default=5, help="number of datasets")
    parser.add_argument("--samples", type=int, default=2000, help="samples of each dataset")
    return parser


if __name__ == "__main__":
    run(main, parser())
