"""The combination of readings nearest to the paper's table of the original metrics.

`make bench-combinations RUN=results/…`, or run the script with `--models`, `--datasets`,
`--methods`. Evaluates the samples of a finished run by the original Soft-NS and Soft-NC (no
calibration) under every combination of :data:`READINGS`, each with distances and squared distances.
Prints a Markdown table, the paper's line first, then the nearest combinations, and writes its rows
to results/bench/combinations.json.

By default, `--methods` are the run's methods in the paper's table. Numbers are means over samples,
then over methods. The error of a combination is a factor: the geometric mean, over both metrics and
all methods, of the ratio of the larger to the smaller of our number and the paper's. τ is
Kendall's, between the two orders of methods. The paper's model is larger and its reviews are not
truncated, so the pattern (τ, Soft-NC ÷ Soft-NS) says more than the factor.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from measuring import REPOSITORY, report_tables
from pisoft.config.base import Clamp
from pisoft.config.evaluation import DrawSettings
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.metrics import soft_nc, soft_ns
from pisoft.faithfulness.perturbation import Perturber
from pisoft.faithfulness.soft import METRICS, measure_draws
from pisoft.models.device import token_budget
from pisoft.statistics.orders import kendall_taus
from pisoft.statistics.published import load_published
from pisoft.store.parquet import OK
from pisoft.workflow.commandline import run
from run_cells import Cell, chosen_files, read_cell, run_parser

READINGS: dict[str, tuple[str, ...]] = {
    "scope": ("content", "user_turn", "all_but_bos", "all"),
    "mask": ("token", "element"),
    "normalisation": ("minmax", "rank", "max"),
    "step_scores": ("own", "aggregated"),
}
DISTANCES = {"H": 1, "H²": 2}  # powers of a stored distance
CLAMP: Clamp = "draw"  # as in Eq. 4
SMALLEST = 5e-4  # smallest value that the paper prints as more than .000
NUMBERS = ("soft_ns", "soft_nc", "expected_retained")
GRID = (0.25, 0.75)  # the smallest grid allowed; the original metrics do not use it


def combinations(several_steps: bool) -> Iterator[dict[str, str]]:
    """Yield every combination of values of :data:`READINGS`.

    Samples with a single step have nothing to aggregate.
    """
    for values in product(*READINGS.values()):
        if several_steps or "aggregated" not in values:
            yield dict(zip(READINGS, values, strict=True))


def step_numbers(row: Mapping[str, Any], power: int) -> list[float]:
    """Return :data:`NUMBERS` of a `soft` row of the original metrics; NaN: it failed."""
    if row["status"] != OK:
        return [np.nan] * len(NUMBERS)
    h0 = row["h0"] ** power
    ns, nc = (np.asarray(row[f"{metric}_distances"])[None] ** power for metric in METRICS)
    retained = row["achieved"] * row["perturbable"]
    return [soft_ns([h0], ns, CLAMP)[0], soft_nc([h0], nc)[0], retained]


def cell_rows(cell: Cell, count: int) -> Iterator[dict[str, Any]]:
    """Yield each step's numbers under every combination, by sample."""
    run_settings = cell.settings.evaluation.model_dump() | {"pi_grid": GRID, "draws": count}
    budget = token_budget(cell.settings.token_budget, cell.model.device)
    several_steps = any(len(generation["steps"]) > 1 for _, generation, _ in cell.samples)
    for readings in combinations(several_steps):
        settings = validate(DrawSettings, {**run_settings, "sampler": "iid", **readings}, "bench")
        perturber = Perturber(cell.model, budget, cell.settings.protocol)
        for block in cell.steps(settings, cell.settings.seed):
            measure_draws(perturber, block, dict.fromkeys(METRICS, range(count)))
            for step, (distance, power) in product(block, DISTANCES.items()):
                numbers = step_numbers(step.rows()[0], power)
                keys = {**readings, "distance": distance, "sample_id": step.sample_id}
                yield keys | dict(zip(NUMBERS, numbers, strict=True))


def table_rows(means: pd.DataFrame, paper: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the paper's line, then the combinations' lines, nearest first.

    Args:
        means: :data:`NUMBERS` and `n`, of samples, by combination and, last, `method`.
        paper: the printed numbers, by `method`.

    Raises:
        BenchmarkError: no method of the run is in the paper's table.
    """
    methods = paper.index[paper.index.isin(means.index.unique("method"))]
    if methods.empty:
        raise BenchmarkError(f"--methods: the paper's table has: {', '.join(paper.index)}")
    paper = paper.loc[methods]
    by_distance = {}
    for key, rows in means.groupby(means.index.names[:-1], sort=False):
        ours = rows.droplevel(means.index.names[:-1]).reindex(methods)
        both = [frame[["soft_ns", "soft_nc"]].clip(lower=SMALLEST) for frame in (ours, paper)]
        factor = np.exp(np.log(both[0] / both[1]).abs().to_numpy().mean())
        by_distance[key] = _line(key, ours, paper) | {"off by a factor of": float(factor)}
    lines = sorted(by_distance.values(), key=lambda line: line["off by a factor of"])
    names = ["paper", *[""] * (len(means.index.names) - 2)]
    return [_line(names, paper, paper) | {"off by a factor of": 1.0}, *lines]


def _line(names: Sequence[str], ours: pd.DataFrame, paper: pd.DataFrame) -> dict[str, Any]:
    """Return the table's line for one combination."""
    mean = ours.mean()
    return {
        **dict(zip([*READINGS, "distance"], names, strict=True)),
        "n": int(ours["n"].min()),
        "Soft-NS": float(mean["soft_ns"]),
        "Soft-NC": float(mean["soft_nc"]),
        "Soft-NC ÷ Soft-NS": float(mean["soft_nc"] / mean["soft_ns"]),
        "E[R]": f"{mean['expected_retained']:.1f}",
        **{
            f"τ of {label}": float(kendall_taus(ours[name], paper[name]))
            for name, label in (("soft_ns", "Soft-NS"), ("soft_nc", "Soft-NC"))
        },
    }


def main(arguments: argparse.Namespace) -> None:
    """Evaluate, print and write."""
    for kind in ("models", "datasets"):
        if len(getattr(arguments, kind) or ()) > 1:
            raise BenchmarkError(f"--{kind}: allowed is one of them; run the bench for each")
    printed = load_published(REPOSITORY / "config/published.csv")
    printed = printed[printed["table"] == "llama verify"].pivot(
        index="method", columns="metric", values="value"
    )
    if arguments.methods is None:
        folders = (arguments.run / "data/soft" / arguments.protocol).glob("*/*")
        arguments.methods = sorted({path.name for path in folders} & {*printed.index})
    frames = []
    for path in chosen_files(arguments):
        cell = read_cell(path, arguments)
        print(cell.name, file=sys.stderr)
        method = path.relative_to(arguments.run / "data/soft" / arguments.protocol).parts[1]
        frames.append(pd.DataFrame(cell_rows(cell, arguments.draws)).assign(method=method))
    keys = [*READINGS, "distance", "method"]
    steps = pd.concat(frames).groupby([*keys, "sample_id"], sort=False)[[*NUMBERS]]
    samples = steps.mean().groupby(keys, sort=False)
    means = samples.mean().assign(n=samples["soft_ns"].count())
    report_tables({"combinations": table_rows(means, printed.assign(n=0))}, arguments.output)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = run_parser(__doc__, "combinations")
    parser.add_argument("--draws", type=int, default=5, help="masks of each step and metric")
    return parser


if __name__ == "__main__":
    run(main, parser())
