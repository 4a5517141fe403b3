"""A run file with everything it names resolved: what all later stages read."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel, ConfigDict

from pisoft.config.base import Protocol
from pisoft.config.cells import Cell, Study
from pisoft.config.datasets import DatasetEntry
from pisoft.config.layer_study import StudyDepth
from pisoft.config.methods import Method, ScoresFile
from pisoft.config.models import MaskedModelEntry, ModelEntry
from pisoft.config.run_file import Restriction, RunFile
from pisoft.config.studies import Control, Permuted, allowed


class Config(BaseModel):
    """A run file with the catalogue entries it selects by name, in the order of selection."""

    model_config = ConfigDict(frozen=True)

    run_file: RunFile
    models: dict[str, ModelEntry]
    masked_models: dict[str, MaskedModelEntry]  # one, that of `run_file.masked_model`
    datasets: dict[str, DatasetEntry]
    methods: dict[str, Method]
    studies: dict[str, Study] = {}  # by purpose: `main`, and what sections of the run file add
    study_methods: dict[str, Method] = {}  # that only a study evaluates
    study_depths: dict[str, tuple[StudyDepth, ...]] = {}  # of the layer study, by model
    # Of models: how many of the last layers are reinitialised; None: trained on shuffled labels.
    variants: dict[str, int | None] = {}

    @property
    def evaluated_methods(self) -> dict[str, Method]:
        """The selected methods, and those that only a study evaluates."""
        return {**self.study_methods, **self.methods}

    @property
    def imported_methods(self) -> dict[str, ScoresFile]:
        """The selected methods whose scores were made elsewhere, with their files."""
        sources = {name: method.source for name, method in self.methods.items()}
        return {name: file for name, file in sources.items() if isinstance(file, ScoresFile)}

    @property
    def constructed_methods(self) -> dict[str, Control | Permuted]:
        """The evaluated methods whose scores are made from the evidence, or from other scores."""
        sources = {name: method.source for name, method in self.evaluated_methods.items()}
        return {
            n: source for n, source in sources.items() if isinstance(source, Control | Permuted)
        }

    def cells(self, study: str = "main") -> list[Cell]:
        """Return the cells of a study; none if the run does not have it.

        Those of model variants have no protocol, as they are not evaluated.
        """
        if study not in self.studies:
            return []
        methods, datasets, operators, variants = self.studies[study]
        return [
            Cell(protocol, operator, model, variant, method, dataset)
            for protocol in (self.run_file.protocols if variants is None else ("",))
            for model in methods
            if model in self.models
            if not protocol or protocol in self.protocols_of(model)
            for operator in (("",) if operators is None else allowed(protocol, operators))
            for variant in (("",) if variants is None else variants[model])
            for method in methods[model]
            for dataset in datasets
            if dataset in self.datasets_of(model)
        ]

    def protocols_of(self, model: str) -> tuple[Protocol, ...]:
        """Return the protocols under which a model is evaluated."""
        allowed = self._restriction(model).protocols
        return tuple(n for n in self.run_file.protocols if allowed is None or n in allowed)

    def methods_of(self, model: str) -> tuple[str, ...]:
        """Return the methods that explain a model."""
        allowed = self._restriction(model).methods
        return tuple(name for name in self.methods if allowed == "all" or name in allowed)

    def datasets_of(self, model: str) -> tuple[str, ...]:
        """Return the datasets on which a model is evaluated."""
        allowed = self._restriction(model).datasets
        return tuple(name for name in self.datasets if allowed == "all" or name in allowed)

    def _restriction(self, model: str) -> Restriction:
        return self.run_file.restrictions.get(model, Restriction())


def config_hash(config: Config) -> str:
    """Return what equal configurations have in common, whatever files they come from."""
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()
