"""Jobs: wildcards; command, settings, code, files by the kind of their rows; resources."""

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

CELL = ("{protocol}{operator}", "{model}{variant}", "{method}", "{part}")  # as in paths of jobs


class Jobs:
    """What the jobs of a run have in common."""

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
          compare it, so that a clone in another place computes nothing again. `option` names an
          input that is an option of the script, but not of the rule's shell command.
        * ``settings``: those of :data:`pisoft.config.jobs.JOBS` by this name, as JSON.
        * ``code``: hash of the script, of all that it imports, and of `dependencies`,
          modules and files that it does not; see :func:`code_hash`. `module` names one more by
          the wildcards.
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
            return job.of(self.config, **dict(names)).to_json()

        def settings_of(wildcards: Any) -> str:
            names = unmarked(dict(wildcards.items()))
            if "part" in names:
                names["dataset"] = dataset_of(names["part"])
            return text(*((key, names[key]) for key in job.wildcards() if key in names))

        return settings_of

    def named_files(self, wildcards: Any, input: Any) -> list[str]:
        """Return a job's input files as KIND=FILES, the kind being the input's name.

        A list of files is of whole datasets, so patterns stand for it; one file may be a shard.
        """
        return [
            f"{kind}={name}"
            for kind, files in input.items()
            for name in ([files] if isinstance(files, str) else shortened(files, self.sharded))
        ]

    def named_outputs(self, wildcards: Any, output: Any) -> list[str]:
        """Return a job's output files in the same form; Snakemake goes by the argument's name."""
        return self.named_files(wildcards, output)

    def resource(self, name: str) -> Callable[[Any], Any]:
        """Return a function: one resource of the catalogue entry of a job's model."""
        return lambda wildcards: getattr(self.config.models[wildcards.model].resources, name)

    def resources(self, rule: str) -> dict[str, Callable[..., Any]]:
        """Return what a model's job asks for; its limits, as many times as it has been tried."""

        def limit(name: str) -> Callable[[Any, int], int]:
            return lambda wildcards, attempt: (
                attempt * getattr(self.limits.of(rule, cell_of(wildcards)), name)
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
        """Return each job of a DAG of Snakemake's that has to run, by its number."""
        return {
            dag.jobid(job): Planned(name, self.limits.seconds(name, cell_of(job.wildcards)))
            for job in dag.needrun_jobs(exclude_finished=False)
            for name in [job.rule.name]
        }


def cell_of(wildcards: Any) -> str:
    """Return the wildcards of a job as they stand in its paths."""
    names = defaultdict(str, wildcards.items())
    return "/".join(filter(None, (key.format_map(names) for key in CELL)))


def stated_throughput(settings: Any) -> float | None:
    """Return the FLOP/s of a GPU that a profile's default-resources state; None without."""
    text = (settings.default_resources or {}).get("throughput")
    value = getattr(text, "raw", text)  # of Snakemake's class, or as Python's callers give it
    return None if value is None else flops_per_second(str(value))


def one_of(names: Iterable[str]) -> str:
    """Return the constraint of a wildcard that has only these values; without any, it has none."""
    return "|".join(map(re.escape, names)) or "(?!)"


def part_constraint(config: Config) -> str:
    """Return the constraint of a job's part: its dataset, or a shard of it, `sst2/0-128`."""
    return "|".join(
        re.escape(name) + (r"/\d+-\d+" if entry.shard_size is not None else "")
        for name, entry in config.datasets.items()
    )
