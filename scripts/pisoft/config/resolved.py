"""A run file with everything it names resolved: what all later stages read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict

from pisoft.config.base import Cell, Protocol
from pisoft.config.datasets import DatasetEntry
from pisoft.config.methods import (
    Method,
    ScoresFile,
)
from pisoft.config.metric_validation import RANDOM, Control, Permuted
from pisoft.config.models import MaskedModelEntry, ModelEntry
from pisoft.config.operators import ways
from pisoft.config.run_file import Restriction, RunFile
from pisoft.config.studies import StudyMethod


class Config(BaseModel):
    """A run file with the catalogue entries it selects, in the order of selection.

    ``masked_models`` holds one entry, that of ``run_file.masked_model``.
    """

    model_config = ConfigDict(frozen=True)

    run_file: RunFile
    models: dict[str, ModelEntry]
    masked_models: dict[str, MaskedModelEntry]
    datasets: dict[str, DatasetEntry]
    methods: dict[str, Method]
    study_methods: tuple[StudyMethod, ...] = ()
    study_datasets: tuple[str, ...] = ()
    controls: dict[str, Method] = {}
    permuted: dict[str, Method] = {}
    validated_models: tuple[str, ...] = ()
    validated_datasets: tuple[str, ...] = ()
    # By model and by method, the variants of the method on the randomised model.
    sanity: dict[str, dict[str, dict[str, Method]]] = {}
    sanity_datasets: tuple[str, ...] = ()
    operator_models: tuple[str, ...] = ()
    operator_methods: tuple[str, ...] = ()
    operator_datasets: tuple[str, ...] = ()

    @property
    def evaluated_methods(self) -> dict[str, Method]:
        """The selected methods, and those that only a study evaluates."""
        studied = {study.name: study.method for study in self.study_methods}
        checked = {
            name: method
            for of_model in self.sanity.values()
            for of_method in of_model.values()
            for name, method in of_method.items()
        }
        return {**studied, **checked, **self.controls, **self.permuted, **self.methods}

    @property
    def imported_methods(self) -> dict[str, ScoresFile]:
        """The selected methods whose scores were made elsewhere, with their files."""
        sources = {name: method.source for name, method in self.methods.items()}
        return {name: file for name, file in sources.items() if isinstance(file, ScoresFile)}

    @property
    def constructed_methods(self) -> tuple[str, ...]:
        """The evaluated methods whose scores are made from the evidence, or from other scores."""
        return tuple(
            name
            for name, method in self.evaluated_methods.items()
            if isinstance(method.source, Control | Permuted)
        )

    @property
    def cells(self) -> list[Cell]:
        """Everything that the main tables show."""
        return [
            (protocol, model, method, dataset)
            for protocol in self.run_file.protocols
            for model in self.models
            if protocol in self.protocols_of(model)
            for method in self.methods
            if method in self.methods_of(model)
            for dataset in self.datasets_of(model)
        ]

    @property
    def study_cells(self) -> list[Cell]:
        """Everything that the layer study shows."""
        return [
            (protocol, method.model, method.name, dataset)
            for method in self.study_methods
            for protocol in self.protocols_of(method.model)
            for dataset in self.study_datasets
            if dataset in self.datasets_of(method.model)
        ]

    @property
    def control_cells(self) -> list[Cell]:
        """Constructed scores, where there are evidence and random scores."""
        return self._validation_cells(
            dict.fromkeys(self.controls, RANDOM),
            [name for name in self.validated_datasets if self.datasets[name].has_evidence],
        )

    @property
    def permuted_cells(self) -> list[Cell]:
        """Every permutation of the scores of a method."""
        sources = {name: method.source for name, method in self.permuted.items()}
        of = {
            name: source.method for name, source in sources.items() if isinstance(source, Permuted)
        }
        return self._validation_cells(of, self.validated_datasets)

    @property
    def sanity_cells(self) -> list[Cell]:
        """Every method on every randomised model; these are attributed alone."""
        return [
            (self.protocols_of(model)[0], model, name, dataset)
            for model, of_model in self.sanity.items()
            for of_method in of_model.values()
            for name in of_method
            for dataset in self.sanity_datasets
            if dataset in self.datasets_of(model)
        ]

    @property
    def operator_cells(self) -> list[Cell]:
        """Methods by other operators than the run's; see :func:`pisoft.config.operators.ways`."""
        others = () if self.run_file.operators is None else self.run_file.operators.others
        return [
            (way, model, name, dataset)
            for protocol, model, dataset in self.inspected
            for way in ways(protocol, others)
            for name in self.methods_of(model)
            if name in self.operator_methods
        ]

    @property
    def inspected(self) -> list[tuple[Protocol, str, str]]:
        """Protocols, models and datasets of which it is asked what operators do to inputs."""
        return [
            (protocol, model, dataset)
            for model in self.operator_models
            for protocol in self.protocols_of(model)
            for dataset in self.operator_datasets
            if dataset in self.datasets_of(model)
        ]

    @property
    def shuffled_models(self) -> tuple[str, ...]:
        """Models that are trained on shuffled labels, too."""
        if self.run_file.sanity_checks is None or not self.run_file.sanity_checks.labels:
            return ()
        return tuple(name for name, methods in self.sanity.items() if methods)

    def _validation_cells(self, compared: Mapping[str, str], datasets: Iterable[str]) -> list[Cell]:
        """Return the cells of methods that are compared with another one, where that is."""
        return [
            (protocol, model, name, dataset)
            for model in self.validated_models
            for protocol in self.protocols_of(model)
            for name, other in compared.items()
            if other in self.methods_of(model)
            for dataset in datasets
            if dataset in self.datasets_of(model)
        ]

    def protocols_of(self, model: str) -> tuple[Protocol, ...]:
        """Return the protocols under which a model is evaluated."""
        allowed = self.run_file.restrictions.get(model, Restriction()).protocols
        protocols = self.run_file.protocols
        return tuple(name for name in protocols if allowed is None or name in allowed)

    def methods_of(self, model: str) -> tuple[str, ...]:
        """Return the methods that explain a model."""
        allowed = self.run_file.restrictions.get(model, Restriction()).methods
        return tuple(name for name in self.methods if allowed == "all" or name in allowed)

    def datasets_of(self, model: str) -> tuple[str, ...]:
        """Return the datasets on which a model is evaluated."""
        allowed = self.run_file.restrictions.get(model, Restriction()).datasets
        return tuple(name for name in self.datasets if allowed == "all" or name in allowed)


def config_hash(config: Config) -> str:
    """Return what equal configurations have in common, whatever files they come from."""
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()
