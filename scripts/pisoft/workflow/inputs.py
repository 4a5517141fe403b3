"""Input files of jobs: records, weights and scores at the places that the configuration names."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from snakemake.io import ancient

from pisoft.config.cells import MARK, SHUFFLED_LABELS
from pisoft.config.jobs.hub import commit_file
from pisoft.config.jobs.records import SampleJob
from pisoft.config.methods import EXPORT, ScoresFile
from pisoft.config.models import GgufModel, HubModel
from pisoft.config.resolved import Config
from pisoft.config.shards import dataset_of, enclosing_part, parts
from pisoft.config.studies import Permuted
from pisoft.datasets.files import input_files
from pisoft.datasets.sampling import chosen, in_turns
from pisoft.datasets.sources import fetch
from pisoft.errors import BenchmarkError
from pisoft.workflow.seals import compares_content

MASKED_MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
MODEL_FILES = (*MASKED_MODEL_FILES, "generation_config.json")
MADE = ("trained", "unigram")  # kinds of sources whose folder a rule makes
LOADED = ("*.json", "*.jinja", "*.safetensors", "*.model")  # files loaded from a local folder


class Inputs:
    """The inputs of a run's jobs; methods with wildcards are input functions of rules."""

    def __init__(self, config: Config, data: Path) -> None:
        self.config, self.data = config, data
        self._turns: dict[str, list[dict[str, Any]] | None] = {}

    def records(self, wildcards: Any) -> list[str]:
        """Return the local files of a dataset."""
        return self._local_files(wildcards.dataset)

    def _local_files(self, dataset: str) -> list[str]:
        source = self.config.datasets[dataset].source
        return input_files(source) if source.kind == "file" else []

    def commit(self, wildcards: Any) -> list[str]:
        """Return the record of a dataset's commit, if it is on the hub."""
        source = self.config.datasets[wildcards.dataset].source
        return [str(commit_file(self.data, source))] if source.kind == "hub" else []

    def candidates(self, wildcards: Any) -> str | list[str]:
        """Return the local or fetched files with the records that a part is sampled from.

        If :meth:`records_of_part` gives a hash, the files' modification times are ignored.
        """
        dataset = dataset_of(wildcards.part)
        files = self._local_files(dataset) or f"{self.data}/datasets/{dataset}.parquet"
        return [*map(ancient, files)] if self.records_of_part(wildcards) else files

    def records_of_part(self, wildcards: Any) -> str:
        """Return a hash of a part's records in the present local files, or "" if unknown.

        With it, a changed record outdates only the parts that contain it. It is unknown for other
        sources, for files not compared by content, and for unreadable files, which the job reports.
        """
        job = SampleJob.from_config(self.config, part=wildcards.part)
        if (turns := self._in_turns(job)) is None:
            return ""
        return hashlib.sha256(json.dumps(chosen(turns, job.count, job.first)).encode()).hexdigest()

    def _in_turns(self, job: SampleJob) -> list[dict[str, Any]] | None:
        """Return the records of local files in the order of sampling, read once."""
        if job.dataset not in self._turns:
            self._turns[job.dataset] = None
            if job.local is not None and compares_content(self._local_files(job.dataset)):
                with suppress(BenchmarkError):
                    self._turns[job.dataset] = in_turns(fetch(job.local), job.seed)
        return self._turns[job.dataset]

    def all_parts(self, pattern: str) -> Callable[[Any], list[str]]:
        """Return an input function: a pattern's files for every part of a model and a dataset."""

        def files(wildcards: Any) -> list[str]:
            names = dict(wildcards.items())
            dataset = names.get("dataset") or dataset_of(names["part"])
            part_names = parts(self.config, wildcards.model, dataset)
            return [pattern.format(**{**names, "part": part}) for part in part_names]

        return files

    def enclosing(self, pattern: str) -> Callable[[Any], str]:
        """Return an input function: a pattern's file for the part that contains a job's part.

        Files of a pattern with `{method}` are split into the method's parts.
        """

        def file(wildcards: Any) -> str:
            names = dict(wildcards.items())
            method = names["method"] if "{method}" in pattern else ""
            part = enclosing_part(self.config, wildcards.model, wildcards.part, method)
            return pattern.format(**{**names, "part": part})

        return file

    @property
    def explained(self) -> dict[str, Callable[[Any], Any]]:
        """Input functions of attribution: prompts and answers."""
        return {
            "prompts": self.enclosing(f"{self.data}/prompts/{{model}}/{{part}}.parquet"),
            "generations": self.enclosing(f"{self.data}/generations/{{model}}/{{part}}.parquet"),
        }

    @property
    def evaluated(self) -> dict[str, Callable[[Any], Any]]:
        """Input functions of evaluation: prompts, answers, scores and the model."""
        return {
            **self.explained,
            "attributions": self.enclosing(
                f"{self.data}/attributions/{{model}}/{{method}}/{{part}}.parquet"
            ),
            "model": self.model,
        }

    def model(self, wildcards: Any) -> list[str]:
        """Return the files that a model is loaded from; a change of them re-runs jobs.

        For a hub model, this is only the record of its commit, unless it is converted.
        """
        if self.config.models[wildcards.model].is_converted:
            return [str(self.data / "models" / wildcards.model / file) for file in MODEL_FILES]
        return self.original_model(wildcards)

    def tokenizer(self, wildcards: Any) -> list[str]:
        """Return the files that a model's tokenizer is loaded from; no weights of hub models."""
        on_hub = isinstance(self.config.models[wildcards.model].source, HubModel)
        return self.original_model(wildcards) if on_hub else self.model(wildcards)

    def original_model(self, wildcards: Any) -> list[str]:
        """Return the files of a model before conversion; a retrained variant has its own folder."""
        variant = wildcards.get("variant", "")
        folder = wildcards.model + (variant if variant == MARK + SHUFFLED_LABELS else "")
        source = self.config.models[wildcards.model].source
        if isinstance(source, GgufModel):
            return [source.path]
        return self._weights(source, f"models/{folder}", MODEL_FILES)

    def masked_model(self, wildcards: Any) -> list[str]:
        """Return the files of the masked model if the method needs it."""
        needed = self.config.evaluated_methods[wildcards.method].needs_masked_model
        return self._masked_model() if needed else []

    def replacements(self, wildcards: Any) -> list[str]:
        """Return the files of the masked model or the prompts that supply replacement tokens."""
        source = self.config.counterfactuals_of(dataset_of(wildcards.part))
        if source == "records":
            return self.all_parts(f"{self.data}/prompts/{{model}}/{{part}}.parquet")(wildcards)
        return self._masked_model() if source else []

    def _masked_model(self) -> list[str]:
        name = self.config.run_file.masked_model
        source = self.config.masked_models[name].source
        return self._weights(source, f"masked_models/{name}", MASKED_MODEL_FILES)

    def _weights(self, source: Any, folder: str, files: Sequence[str]) -> list[str]:
        if source.kind == "hub":
            return [str(commit_file(self.data, source))]
        if source.kind in MADE:
            return [str(self.data / folder / file) for file in files]
        return sorted(str(path) for pattern in LOADED for path in Path(source.path).glob(pattern))

    def method_module(self, wildcards: Any) -> str:
        """Return the module of a method: an edit re-runs the jobs of this method only."""
        return f"pisoft.attribution.{self.config.evaluated_methods[wildcards.method].file}"

    def given_scores(self, wildcards: Any) -> str:
        """Return the file with a method's imported scores.

        Raises:
            SystemExit: there is no such file. Snakemake would treat any other exception as a
                missing input, and ignore it if summaries of an earlier run exist.
        """
        source = self.config.sources(ScoresFile)[wildcards.method]
        path = source.path_of(wildcards.model, dataset_of(wildcards.part))
        if not Path(path).is_file():
            sys.exit(
                f"error: method '{wildcards.method}': source.path: no such file: {path}; {EXPORT}"
            )
        return path

    def permuted_scores(self, wildcards: Any) -> str | list[str]:
        """Return the file with the scores to permute, if any."""
        source = self.config.evaluated_methods[wildcards.method].source
        if not isinstance(source, Permuted):
            return []
        folder = self.data / "attributions" / wildcards.model / source.method
        return f"{folder}/{wildcards.part}.parquet"
