"""What jobs of models ask for: resources of the catalogue, and planned limits that grow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from pisoft.config.resolved import Config
from pisoft.cost.limits import RunLimits
from pisoft.cost.report import flops_per_second

CELL = ("{protocol}{operator}", "{model}{variant}", "{method}", "{part}")  # as in paths of jobs


class ModelResources:
    """Threads, GPUs, main memory and minutes of a run's jobs that load a model.

    Args:
        config: the run.
        limits: of its jobs.
    """

    def __init__(self, config: Config, limits: RunLimits) -> None:
        self.config, self.limits = config, limits

    def asked(self, name: str) -> Callable[[Any], Any]:
        """Return a function: one resource of the catalogue entry of a job's model."""
        return lambda wildcards: getattr(self.config.models[wildcards.model].resources, name)

    def growing(self, rule: str, name: str) -> Callable[[Any, int], int]:
        """Return a function: a limit of a rule's job, as many times as the job has been tried."""

        def limit(wildcards: Any, attempt: int) -> int:
            names = defaultdict(str, wildcards.items())
            cell = "/".join(filter(None, (key.format_map(names) for key in CELL)))
            return attempt * int(getattr(self.limits.of(rule, cell), name))

        return limit


def stated_throughput(settings: Any) -> float | None:
    """Return the FLOP/s of a GPU that a profile's default-resources state; None without.

    Args:
        settings: Snakemake's settings of resources.
    """
    stated = (settings.default_resources or {}).get("throughput")
    value = getattr(stated, "raw", stated)  # of Snakemake's class, or as Python's callers give it
    return None if value is None else flops_per_second(str(value))
