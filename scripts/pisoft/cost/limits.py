"""Limits of a model's jobs on a batch system: planned minutes and main memory, plus a margin.

Too small a limit ends a job; too large a limit makes it wait. Each retry therefore multiplies the
limits by the number of attempts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pisoft.config.cells import MARK
from pisoft.config.models import ModelEntry
from pisoft.config.resolved import Config
from pisoft.cost.plan import START_UP, plan_run
from pisoft.cost.sizes import largest_file, stored_bytes, weight_bytes
from pisoft.errors import BenchmarkError

RUNTIME_SAFETY = 3  # short prompts do not fill a GPU, and few sites have measured theirs
LEAST_RUNTIME = 10  # minutes: many jobs at once read libraries and weights from the same disks
MEMORY_SAFETY = 1.3  # peaks of evaluations were 1.11 to 1.30 times the weights
LIBRARIES = 3e9  # bytes of main memory: Python, torch, CUDA, rows


@dataclass(frozen=True)
class Limits:
    """The limits of a job, minutes and MB of main memory, and its planned seconds."""

    runtime: int
    mem_mb: int
    planned: float = field(default=START_UP, compare=False)


# FLOP/s where nobody has said: two CPU cores in float32, a GPU in bfloat16.
CPU_SPEED, GPU_SPEED = 1e11, 3e14
# Of jobs that cannot be planned, or that the run does not have but was asked for by name; and the
# minutes of those whose device has no known speed.
UNPLANNED = Limits(runtime=60, mem_mb=4000)


class RunLimits:
    """The limits of a run's jobs, planned on first use of each model.

    Args:
        results: the run's folder, whose prompts and generations give lengths.
        rate: FLOP/s of a GPU; None: unknown, so no time is planned.
    """

    def __init__(self, config: Config, results: Path, rate: float | None) -> None:
        self._config, self._results, self._rate = config, results, rate
        self._of_model = cache(self._plan)

    def check(self) -> None:
        """Check that jobs can be planned, if the speed of the GPUs is given.

        Raises:
            BenchmarkError: the weights of a model on a GPU or the lengths of its prompts are
                unknown, and its entry does not set the limits of its jobs.
        """
        for name, entry in self._config.models.items():
            resources = entry.resources
            if self._rate is None or not resources.gpu or (resources.runtime and resources.mem_mb):
                continue
            _, error = self._of_model(name)
            if error is not None:
                raise BenchmarkError(
                    f"{error}; or set resources.runtime and resources.mem_mb of model '{name}'"
                ) from error

    def for_job(self, rule: str, cell: str) -> Limits:
        """Return the limits of a job that loads a model, by its wildcards."""
        name = model_of(rule, cell)
        resources = self._config.models[name].resources
        if resources.runtime and resources.mem_mb:
            return Limits(resources.runtime, resources.mem_mb)
        planned, _ = self._of_model(name)
        limits = planned.get((rule, cell), UNPLANNED)
        return Limits(resources.runtime or limits.runtime, resources.mem_mb or limits.mem_mb)

    def seconds(self, rule: str, cell: str) -> float:
        """Return the estimated seconds of a job, comparable with other jobs of the run."""
        name = model_of(rule, cell)
        planned = self._of_model(name)[0] if name in self._config.models else {}
        return planned.get((rule, cell), UNPLANNED).planned

    def _plan(self, name: str) -> tuple[dict[tuple[str, str], Limits], BenchmarkError | None]:
        """Return the limits of a model's jobs by rule and cell, or why there are none."""
        entry = self._config.models[name]
        config = self._config.model_copy(update={"models": {name: entry}})
        try:
            try:
                plan = plan_run(config, self._results)
            except BenchmarkError:  # such as answers to prompts that have changed: recomputed soon
                plan = plan_run(config, None)
        except BenchmarkError as error:
            return {}, error
        on_gpu = entry.resources.gpu and entry.device != "cpu"
        weights = memory_held(plan.parameters[name], entry, bool(on_gpu))
        rate, speed = (self._rate, self._rate or GPU_SPEED) if on_gpu else (None, CPU_SPEED)
        return {
            (job.rule, job.cell): Limits(
                UNPLANNED.runtime if rate is None else runtime_limit(plan.seconds(job, rate)),
                memory_limit(weights.get(job.rule, weights["generate"]) if job.model else 0),
                plan.seconds(job, speed),
            )
            for job in plan.jobs
        }, None


def model_of(rule: str, cell: str) -> str:
    """Return the model of a job, or the first name of its cell if it loads none."""
    names = cell.split("/")
    routed = rule in ("evaluate_soft", "inspect_inputs")
    return names[min(routed, len(names) - 1)].partition(MARK)[0]


def runtime_limit(seconds: float) -> int:
    """Return the runtime limit, minutes, of a job planned to take `seconds`."""
    return max(LEAST_RUNTIME, math.ceil(RUNTIME_SAFETY * seconds / 60))


def memory_held(parameters: float, entry: ModelEntry, on_gpu: bool) -> dict[str, float]:
    """Return the bytes of weights that a model's jobs hold in main memory, by rule.

    On a CPU, these are all weights. With a GPU, files are memory-mapped and pages already read are
    dropped, so the largest file suffices.
    """
    original = weight_bytes(parameters, entry.dtype)
    single = weight_bytes(parameters, "float32")
    stored = stored_bytes(parameters, entry)
    largest = largest_file(entry.source, original) if on_gpu else original
    loaded = largest if on_gpu and not entry.is_converted else stored  # which is one file
    # Some steps of 16-bit models are attributed again in float32.
    again = single if original < single and not on_gpu else 0
    # A GGUF file is dequantised in float32; 4-bit weights come back from the device to be written.
    written = stored if entry.is_quantised_once else 2 * single
    return {"generate": loaded, "attribute": loaded + again, "convert_model": largest + written}


def memory_limit(weights: float) -> int:
    """Return the memory limit, MB, of a job that holds `weights` bytes of weights."""
    return 100 * math.ceil((MEMORY_SAFETY * weights + LIBRARIES) / 1e8)
