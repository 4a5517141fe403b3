"""What a model's job asks of a batch system: minutes and main memory, as planned, with room.

A limit that is too small ends a job, one that is too large makes it wait: so there is room, and a
job that is tried again asks for as many times of both as it has been tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pisoft.config.cells import MARK
from pisoft.config.resolved import Config
from pisoft.config.slices import PlanSlice
from pisoft.errors import BenchmarkError
from pisoft.planning.plan import LOADING_RULES, Job, plan_run

RUNTIME_SAFETY = 3  # short prompts do not fill a GPU, and few sites have measured theirs
LEAST_RUNTIME = 10  # minutes: many jobs at once read libraries and weights from the same disks
MEMORY_SAFETY = 1.25
# Bytes of main memory: jobs of tiny models took up to 0.66e9 on a CPU; CUDA has its own libraries.
LIBRARIES = 3e9
ROW_OBJECTS = 10  # bytes of Python's objects for each byte of the rows that they become


@dataclass(frozen=True)
class Limits:
    """What a job may take: minutes, and MB of main memory."""

    runtime: int
    mem_mb: int


Planned = Mapping[tuple[str, str], Limits]  # by rule and cell

# Of jobs that cannot be planned, or that the run does not have but was asked for by name; and the
# minutes of those whose device has no known speed.
UNPLANNED = Limits(runtime=60, mem_mb=4000)


class RunLimits:
    """The limits of a run's jobs, planned for a model when they are first asked for.

    Args:
        config: the run.
        results: its folder, in whose prompts and generations lengths are measured.
        rate: FLOP/s of a GPU; None: not known, and no job's time is planned.
    """

    def __init__(self, config: Config, results: Path, rate: float | None) -> None:
        self._config, self._results, self._rate = config, results, rate
        self._planned: dict[str, Planned | BenchmarkError] = {}

    def check(self) -> None:
        """Refuse a run whose jobs cannot be planned, though the speed of its GPUs is given.

        Raises:
            BenchmarkError: sizes or lengths of a GPU's model are not known, and its entry does not
                say what its jobs ask for.
        """
        for name, entry in self._config.models.items():
            asked = entry.resources
            if self._rate is None or not asked.gpu or (asked.runtime and asked.mem_mb):
                continue
            if isinstance(error := self._of_model(name), BenchmarkError):
                raise BenchmarkError(
                    f"{error}; or set resources.runtime and resources.mem_mb of model '{name}'"
                ) from error

    def of(self, rule: str, cell: str) -> Limits:
        """Return the limits of a job that loads a model.

        Args:
            rule: its rule.
            cell: its wildcards as they stand in its paths.
        """
        name = cell.split("/")[1 if rule in ("evaluate_soft", "inspect_inputs") else 0]
        name = name.partition(MARK)[0]
        asked = self._config.models[name].resources
        if asked.runtime and asked.mem_mb:
            return Limits(asked.runtime, asked.mem_mb)
        planned = self._of_model(name)
        known = {} if isinstance(planned, BenchmarkError) else planned
        limits = known.get((rule, cell), UNPLANNED)
        return Limits(asked.runtime or limits.runtime, asked.mem_mb or limits.mem_mb)

    def _of_model(self, name: str) -> Planned | BenchmarkError:
        """Return the limits of a model's jobs by rule and cell, or why they are not known."""
        if name not in self._planned:
            try:
                self._planned[name] = self._plan(name)
            except BenchmarkError as error:
                self._planned[name] = error
        return self._planned[name]

    def _plan(self, name: str) -> Planned:
        entry = self._config.models[name]
        on_gpu = bool(entry.resources.gpu) and entry.device != "cpu"
        settings = _of_one_model(PlanSlice.of(self._config), name)
        try:
            plan = plan_run(settings, self._results)
        except BenchmarkError:  # such as answers to prompts that have changed, which are recomputed
            plan = plan_run(settings, None)
        rate = self._rate if on_gpu else None
        return {
            (job.rule, job.cell): job_limits(job, rate, on_gpu=on_gpu)
            for job in plan.jobs
            if job.rule in LOADING_RULES
        }


def job_limits(job: Job, rate: float | None, *, on_gpu: bool) -> Limits:
    """Return the limits of a planned job that loads a model.

    Args:
        job: which one.
        rate: FLOP/s of its device; None: not known.
        on_gpu: the model is in a GPU's memory, and its files pass through main memory, which has
            all of them at once at worst. Otherwise it is in main memory beside them.
    """
    held = LIBRARIES + job.read + ROW_OBJECTS * job.disk + (0 if on_gpu else job.memory or 0)
    megabytes = 100 * math.ceil(MEMORY_SAFETY * held / 1e8)
    if rate is None:
        return Limits(UNPLANNED.runtime, megabytes)
    seconds = job.start_up + job.high.flops / rate
    return Limits(max(LEAST_RUNTIME, math.ceil(RUNTIME_SAFETY * seconds / 60)), megabytes)


def _of_one_model(settings: PlanSlice, name: str) -> PlanSlice:
    """Return what a single model's jobs cost depends on."""
    cells = {
        study: tuple(cell for cell in of_study if cell.model == name)
        for study, of_study in settings.cells.items()
    }
    models = {name: settings.models[name]}
    return settings.model_copy(update={"models": models, "masked_models": {}, "cells": cells})
