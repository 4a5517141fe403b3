"""Errors and warnings before any job runs, such as those of an invalid configuration."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from pisoft.attribution import load_method
from pisoft.config.jobs.records import FetchJob
from pisoft.config.loading import load_run
from pisoft.config.resolved import Config
from pisoft.config.shards import parts
from pisoft.datasets.sources import check_columns
from pisoft.errors import BenchmarkError

HASHES = "PISOFT_CONFIGURATION"  # environment variable


def checked_run(raw: Mapping[str, Any], files: Iterable[str], folder: Path) -> Config:
    """Validate a run file, the columns of its records and the shards of its datasets.

    Raises:
        WorkflowError: one of them is invalid.
    """
    try:
        config = load_run(raw, files, folder, load_method)
        for name in config.datasets:
            check_columns(FetchJob.from_config(config, dataset=name))
            for model in config.models:
                parts(config, model, name)
    except BenchmarkError as error:
        raise WorkflowError(str(error)) from None
    return config


def warn_of_idle_gpu(config: Config) -> None:
    """Warn of models that compute on the CPU although the machine has a GPU for them."""
    on_cpu = [
        name
        for name, entry in config.models.items()
        if entry.device == "auto" and not entry.resources.gpu
    ]
    if on_cpu and shutil.which("nvidia-smi"):
        logger.warning(
            f"This machine has a GPU, but resources.gpu is 0 for {', '.join(on_cpu)}: computing on "
            "the CPU. `resources: {gpu: 1}` selects the GPU, `device: cpu` ends this warning."
        )


def check_unchanged(config: Config, environment: MutableMapping[str, str], is_run: bool) -> None:
    """Refuse a job whose run began with a different configuration.

    A cluster job parses the configuration when it starts, possibly days after its run did. Edits
    made in between would enter its results as if the run had requested them. The environment
    therefore passes the hash of the run's configuration to its jobs, or several hashes if another
    workflow uses this one as a module.

    Raises:
        WorkflowError: the configuration has changed since the run began.
    """
    current, seen = configuration_hash(config), environment.get(HASHES, "").split()
    if is_run:
        environment[HASHES] = " ".join({*seen, current})
    elif current not in seen:
        raise WorkflowError(
            f"results/{config.run_file.run}: the run file or a catalogue has changed since this "
            "job's run began, so the job would compute something else: revert the change, or stop "
            "the run and restart it"
        )


def configuration_hash(config: Config) -> str:
    """Return a hash of the resolved configuration, independent of the files it comes from."""
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()
