"""What a run was predicted to cost beside what was measured, by rule and model."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pisoft.contracts import read_provenance
from pisoft.errors import BenchmarkError
from pisoft.planning.plan import Job, Plan

# Folders with the Parquet files of rules whose jobs count their forwards, if they do.
COUNTING = {"evaluate_soft": "soft", "evaluate_ranking": "ranking", "inspect_inputs": "inputs"}


def cost_rows(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """Return rows of kind `cost`: one for every rule and model, in the order of the data.

    Summaries, tables and figures are left out: some of them are still to come. Jobs without a
    benchmark file, or without counts in their output, are missing from the sums of what was
    measured, and from `timed_jobs` and `counted_jobs`.

    Args:
        plan: of the run, with lengths measured in its prompts and generations.
        results: its folder.

    Raises:
        BenchmarkError: a benchmark file does not hold seconds.
    """
    groups: dict[tuple[str, str | None], list[Job]] = defaultdict(list)
    for job in plan.jobs:
        if job.cell:
            groups[job.rule, job.model].append(job)
    return [_cost_row(rule, model, jobs, results) for (rule, model), jobs in groups.items()]


def benchmark_seconds(path: Path) -> float | None:
    """Return the wall-clock seconds in a job's benchmark file; None if there is no file.

    Raises:
        BenchmarkError: the file has no line of numbers, or no column `s`.
    """
    if not path.is_file():
        return None
    try:
        with path.open(encoding="utf-8", newline="") as file:
            (line,) = csv.DictReader(file, delimiter="\t")
        return float(line["s"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise BenchmarkError(
            f"{path}: holds no line with a column 's', as Snakemake's benchmark files do; delete it"
        ) from error


def _cost_row(rule: str, model: str | None, jobs: Sequence[Job], results: Path) -> dict[str, Any]:
    times = [benchmark_seconds(results / "logs" / rule / f"{job.cell}.tsv") for job in jobs]
    seconds = [time for time in times if time is not None]
    counts = [found for job in jobs if (found := _counts(job, results)) is not None]
    return {
        "rule": rule,
        "model": model,
        "jobs": len(jobs),
        "forwards_low": sum(job.low.forwards for job in jobs),
        "forwards_high": sum(job.high.forwards for job in jobs),
        "tokens_low": sum(job.low.tokens for job in jobs),
        "tokens_high": sum(job.high.tokens for job in jobs),
        "flops_low": sum(job.low.flops for job in jobs),
        "flops_high": sum(job.high.flops for job in jobs),
        "timed_jobs": len(seconds),
        "seconds": sum(seconds) if seconds else None,
        "counted_jobs": len(counts),
        "counted_forwards": sum(forwards for forwards, _ in counts) if counts else None,
        "counted_tokens": sum(tokens for _, tokens in counts) if counts else None,
    }


def _counts(job: Job, results: Path) -> tuple[float, float] | None:
    """Return forwards and tokens that a job has counted; None if it has not."""
    if job.rule not in COUNTING:
        return None
    output = results / "data" / COUNTING[job.rule] / f"{job.cell}.parquet"
    facts = read_provenance(output) if output.is_file() else {}
    if "forwards" not in facts or "tokens" not in facts:
        return None
    return facts["forwards"], facts["tokens"]
