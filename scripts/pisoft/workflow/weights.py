"""Where weights lie: the files that jobs of a model depend on, and their command-line options."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pisoft.config.cells import MARK, SHUFFLED_LABELS
from pisoft.config.jobs import commit_file
from pisoft.config.resolved import Config

MASKED_MODEL_FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)
MODEL_FILES = (*MASKED_MODEL_FILES, "generation_config.json")
MADE = ("trained", "unigram", "gguf")  # kinds of sources whose folder a rule makes
LOADED = ("*.json", "*.jinja", "*.safetensors", "*.model")  # of a local folder


class Weights:
    """The weights of a run's models.

    Args:
        config: the run.
        data: its folder for files of jobs.
    """

    def __init__(self, config: Config, data: Path) -> None:
        self.config, self.data = config, data

    def files(self, wildcards: Any) -> list[str]:
        """Return the files that a model is loaded from, so that a change of them is noticed."""
        source = self.config.models[wildcards.model].source
        return self._files(source, "models", _folder(wildcards), MODEL_FILES)

    def option(self, wildcards: Any) -> str:
        """Return the command-line option that says where a model is."""
        source = self.config.models[wildcards.model].source
        return self._option("model", source, "models", _folder(wildcards))

    def masked_files(self, wildcards: Any) -> list[str]:
        """Return the files of the masked model, for methods that need it and no others."""
        if not self.config.evaluated_methods[wildcards.method].needs_masked_model:
            return []
        name = self.config.run_file.masked_model
        source = self.config.masked_models[name].source
        return self._files(source, "masked_models", name, MASKED_MODEL_FILES)

    def masked_option(self, wildcards: Any) -> str:
        """Return the command-line option that says where the masked model is, if it is needed."""
        if not self.config.evaluated_methods[wildcards.method].needs_masked_model:
            return ""
        name = self.config.run_file.masked_model
        return self._option("masked", self.config.masked_models[name].source, "masked_models", name)

    def _files(self, source: Any, folder: str, name: str, files: Sequence[str]) -> list[str]:
        if source.kind == "hub":
            return [str(commit_file(self.data, source))]
        if source.kind in MADE:
            return [str(self.data / folder / name / file) for file in files]
        return sorted(str(path) for pattern in LOADED for path in Path(source.path).glob(pattern))

    def _option(self, option: str, source: Any, folder: str, name: str) -> str:
        if source.kind == "hub":
            return f"--{option}-commit {shlex.quote(str(commit_file(self.data, source)))}"
        path = self.data / folder / name if source.kind in MADE else source.path
        return f"--{option}-folder {shlex.quote(str(path))}"


def _folder(wildcards: Any) -> str:
    """Return the folder of a trained model, that of its variant if it is another training."""
    variant = wildcards.get("variant", "")
    return str(wildcards.model) + (variant if variant == MARK + SHUFFLED_LABELS else "")
