"""What a method's scores are made from: its module, a given file, or another method's scores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pisoft.config.methods import EXPORT
from pisoft.config.resolved import Config
from pisoft.config.shards import dataset_of
from pisoft.config.studies import Permuted


class Scores:
    """The scores of a run's methods.

    Args:
        config: the run.
        data: its folder for files of jobs.
    """

    def __init__(self, config: Config, data: Path) -> None:
        self.config, self.data = config, data

    def module(self, wildcards: Any) -> str:
        """Return the module of a method: an edit re-runs this method's jobs and no others."""
        return f"pisoft.attribution.{self.config.evaluated_methods[wildcards.method].file}"

    def given(self, wildcards: Any) -> str:
        """Return the file with a method's scores that were made elsewhere.

        Without the file, the run ends. Snakemake would take any exception for one more missing
        input, and pass over it where summaries of an earlier run are there.

        Raises:
            SystemExit: there is no such file.
        """
        source = self.config.imported_methods[wildcards.method]
        path = source.path_of(wildcards.model, dataset_of(wildcards.part))
        if not Path(path).is_file():
            sys.exit(
                f"error: method '{wildcards.method}': source.path: no such file: {path}; {EXPORT}"
            )
        return path

    def permuted(self, wildcards: Any) -> str | list[str]:
        """Return the file with the scores that are permuted, if any are."""
        source = self.config.evaluated_methods[wildcards.method].source
        if not isinstance(source, Permuted):
            return []
        folder = self.data / "attributions" / wildcards.model / source.method
        return f"{folder}/{wildcards.part}.parquet"
