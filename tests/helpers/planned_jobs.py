"""Plan runs with Snakemake in this process, some with jobs that count as done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from snakemake.api import DAGSettings, OutputSettings, ResourceSettings, SnakemakeApi
from snakemake.jobs import Job
from snakemake.settings.types import ConfigSettings, Quietness

ROOT = Path(__file__).parents[2]


@contextmanager
def planned(folder: Path, run_file: dict[str, Any], until: Iterable[str] = ()) -> Iterator[Any]:
    """Plan a run with results in a folder, up to given rules, and yield Snakemake's DAG.

    Raises:
        WorkflowError: the run file is refused.
    """
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(run_file), encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        with SnakemakeApi(OutputSettings(dryrun=True, quiet={Quietness.ALL})) as api:
            workflow = api.workflow(
                resource_settings=ResourceSettings(cores=1),
                config_settings=ConfigSettings(configfiles=[path]),
                snakefile=ROOT / "Snakefile",
            )
            workflow.dag(DAGSettings(until=frozenset(until))).execute_workflow(executor="dryrun")
            yield workflow._workflow.dag
    finally:
        os.chdir(before)


def take_for_done(folder: Path, run_file: dict[str, Any]) -> None:
    """Write empty results of every job of a run into a folder, with Snakemake's records of them."""
    with planned(folder, run_file) as dag:
        for job in chain.from_iterable(dag.toposorted()):
            for file in job.output:
                Path(file).parent.mkdir(parents=True, exist_ok=True)
                Path(file).touch()
                os.utime(file, (1, 1))
            if job.output:
                dag.workflow.async_run(dag.workflow.persistence.finished(job))


def outdated(folder: Path, run_file: dict[str, Any]) -> dict[str, str]:
    """Return the outputs that a run would make now, relative to its folder, with their rules."""
    with planned(folder, run_file) as dag:
        return _outputs(dag.needrun_jobs(exclude_finished=False))


def outputs(folder: Path, run_file: dict[str, Any]) -> dict[str, str]:
    """Return all outputs of a run, relative to its folder, with their rules."""
    with planned(folder, run_file) as dag:
        return _outputs(dag.jobs)


def _outputs(jobs: Iterable[Job]) -> dict[str, str]:
    return {"/".join(Path(file).parts[2:]): job.rule.name for job in jobs for file in job.output}
