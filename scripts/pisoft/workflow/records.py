"""What the records of datasets are read from, and the parts they are cut into."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pisoft.config.jobs import commit_file
from pisoft.config.resolved import Config
from pisoft.config.shards import dataset_of, parts
from pisoft.datasets.files import input_files


class Records:
    """The records of a run's datasets.

    Args:
        config: the run.
        data: its folder for files of jobs.
    """

    def __init__(self, config: Config, data: Path) -> None:
        self.config, self.data = config, data

    def sources(self, wildcards: Any) -> list[str]:
        """Return the local files of a dataset, or the record of its commit on the hub."""
        source = self.config.datasets[wildcards.dataset].source
        if source.kind == "hub":
            return [str(commit_file(self.data, source))]
        return input_files(source) if source.kind == "file" else []

    def commit_option(self, wildcards: Any) -> str:
        """Return the command-line option that names the record of a dataset's commit, if any."""
        source = self.config.datasets[wildcards.dataset].source
        if source.kind != "hub":
            return ""
        return f"--commit {shlex.quote(str(commit_file(self.data, source)))}"

    def of_part(self, wildcards: Any) -> str:
        """Return the records that a part is chosen from."""
        return f"{self.data}/datasets/{dataset_of(wildcards.part)}.parquet"

    def all_parts(self, pattern: str) -> Callable[[Any], list[str]]:
        """Return an input function: a pattern's files for every part of a model and a dataset."""

        def files(wildcards: Any) -> list[str]:
            names = dict(wildcards.items())
            dataset = names.get("dataset") or dataset_of(names["part"])
            every = parts(self.config, wildcards.model, dataset)
            return [pattern.format(**{**names, "part": part}) for part in every]

        return files
