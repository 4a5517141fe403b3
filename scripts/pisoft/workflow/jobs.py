"""Jobs: their parameters (command, settings, code, files), resources and wildcards."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from pisoft.config.cells import unmarked
from pisoft.config.jobs import JOBS
from pisoft.config.resolved import Config
from pisoft.config.shards import dataset_of
from pisoft.cost.limits import RunLimits
from pisoft.cost.report import flops_per_second
from pisoft.store.shards import shortened
from pisoft.workflow.code_hash import code_hash
from pisoft.workflow.terminal import Planned

CELL = ("{protocol}{operator}", "{model}{variant}", "{method}", "{part}")  # as in the paths of jobs


class Jobs:
    """Parameters and resources of the jobs of a run."""

    def __init__(self, config: Config, limits: RunLimits, scripts: Path, python: str) -> None:
        self.config, self.limits = config, limits
        self.scripts, self.python = scripts, python
        datasets = config.datasets.items()
        self.sharded = [name for name, entry in datasets if entry.shard_size is not None]

    def parameters(
        self,
        script: str,
        settings_name: str,
        *dependencies: str,
        module: Callable[[Any], str] | None = None,
        option: str = "",
    ) -> dict[str, Any]:
        """Return the parameters that every job has.

        * ``command``: interpreter and script. As it depends on `resources`, Snakemake does not
          compare it, and a clone in another place recomputes nothing. `option` names an input to
          pass as an option that the rule's shell command lacks.
        * ``settings``: the settings of this name in :data:`pisoft.config.jobs.JOBS`, as JSON.
        * ``code``: hash of the script, its imports, and `dependencies` that it does not import; see
          :func:`code_hash`. With `module`, the only dependency follows from the wildcards.
        """
        command = f"{shlex.quote(self.python)} {shlex.quote(str(self.scripts / script))}.py"
        code = code_hash(script, *dependencies)

        def with_option(wildcards: Any, resources: Any, input: Any = None) -> str:
            files = shortened(input[option], self.sharded) if input else []
            return f"{command} {shlex.join((f'--{option}', *files))}" if files else command

        return {
            "command": with_option if option else lambda wildcards, resources: command,
            "settings": self.settings(settings_name),
            "code": code if module is None else lambda names: code_hash(script, module(names)),
        }

    def settings(self, name: str) -> Callable[[Any], str]:
        """Return a params function: the job's settings as JSON."""
        job = JOBS[name]

        @cache
        def text(*names: tuple[str, str]) -> str:
            return job.from_config(self.config, **dict(names)).to_json()

        def settings_of(wildcards: Any) -> str:
            names = unmarked(dict(wildcards.items()))
            if "part" in names:
                names["dataset"] = dataset_of(names["part"])
            return text(*((key, names[key]) for key in job.wildcards() if key in names))

        return settings_of

    def named_files(self, wildcards: Any, input: Any) -> list[str]:
        """Return a job's input files as KIND=FILES, where the kind is the input's name.

        Lists of files cover whole datasets and become patterns; a single file may be a shard.
        """
        return [
            f"{kind}={name}"
            for kind, files in input.items()
            for name in ([files] if isinstance(files, str) else shortened(files, self.sharded))
        ]

    def named_outputs(self, wildcards: Any, output: Any) -> list[str]:
        """Return a job's output files in the same form; Snakemake requires this argument's name."""
        return self.named_files(wildcards, output)

    def resource(self, name: str) -> Callable[[Any], Any]:
        """Return a resource function: a value from the catalogue entry of a job's model."""
        return lambda wildcards: getattr(self.config.models[wildcards.model].resources, name)

    def resources(self, rule: str) -> dict[str, Callable[..., Any]]:
        """Return the resource functions of a model's job; its limits grow with each attempt."""

        def limit(name: str) -> Callable[[Any, int], int]:
            return lambda wildcards, attempt: (
                attempt * getattr(self.limits.for_job(rule, cell_of(wildcards)), name)
            )

        def gpus(wildcards: Any) -> int:
            if (
                rule == "attribute"
                and not self.config.evaluated_methods[wildcards.method].needs_model
            ):
                return 0
            return self.config.models[wildcards.model].resources.gpu

        return {"gpu": gpus, "mem_mb": limit("mem_mb"), "runtime": limit("runtime")}

    def planned(self, dag: Any) -> dict[int, Planned]:
        """Return the jobs of a Snakemake DAG that have to run, by number."""
        return {
            dag.jobid(job): Planned(name, self.limits.seconds(name, cell_of(job.wildcards)))
            for job in dag.needrun_jobs(exclude_finished=False)
            for name in [job.rule.name]
        }


def cell_of(wildcards: Any) -> str:
    """Return the cell of a job as written in its paths."""
    names = defaultdict(str, wildcards.items())
    return "/".join(filter(None, (key.format_map(names) for key in CELL)))


def stated_throughput(settings: Any) -> float | None:
    """Return the GPU's FLOP/s from a profile's default-resources, or None if not stated."""
    text = (settings.default_resources or {}).get("throughput")
    value = getattr(text, "raw", text)  # of Snakemake's class, or a plain value from Python
    return None if value is None else flops_per_second(str(value))


def one_of(names: Iterable[str]) -> str:
    """Return a wildcard constraint that matches only these names; without names, nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def part_constraint(config: Config) -> str:
    """Return the wildcard constraint of parts: datasets, and shards such as `sst2/0-128`."""
    return "|".join(
        re.escape(name) + (r"/\d+-\d+" if entry.shard_size is not None else "")
        for name, entry in config.datasets.items()
    )
