"""The resolved configuration, which all later stages read."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from pisoft.config.base import Replacements, Target, TargetToken
from pisoft.config.cells import Cell, Study
from pisoft.config.datasets import DatasetEntry
from pisoft.config.methods import Method
from pisoft.config.models import MaskedModelEntry, ModelEntry
from pisoft.config.run_file import RunFile
from pisoft.config.studies import allowed

Source = TypeVar("Source")


class Config(BaseModel):
    """A run file with the catalogue entries it selects by name, in the order of selection."""

    model_config = ConfigDict(frozen=True)

    run_file: RunFile
    models: dict[str, ModelEntry]
    masked_models: dict[str, MaskedModelEntry]  # one: `run_file.masked_model`
    datasets: dict[str, DatasetEntry]
    methods: dict[str, Method]
    studies: dict[str, Study] = {}  # `main`, and those that sections of the run file add

    @property
    def evaluated_methods(self) -> dict[str, Method]:
        """The selected methods, and methods that only a study evaluates."""
        methods: dict[str, Method] = {}
        for study in self.studies.values():
            methods |= study.added
        return methods | self.methods

    @property
    def counterfactuals(self) -> Replacements | None:
        """Source of replacement tokens for counterfactuals; None if these are switched off."""
        return self.run_file.ranking.counterfactuals if self.run_file.ranking else None

    def counterfactuals_of(self, dataset: str) -> Replacements | None:
        """Return the source of replacements for a dataset; None if it has no counterfactuals."""
        return None if self.datasets[dataset].ranking_obstacle else self.counterfactuals

    @property
    def needs_masked_model(self) -> bool:
        """Whether a method needs the masked model, or counterfactuals do."""
        methods = self.evaluated_methods.values()
        return self.counterfactuals == "masked_model" or any(m.needs_masked_model for m in methods)

    def sources(self, *kinds: type[Source]) -> dict[str, Source]:
        """Return the score sources of these types, by evaluated method."""
        all_sources = {name: method.source for name, method in self.evaluated_methods.items()}
        return {name: source for name, source in all_sources.items() if isinstance(source, kinds)}

    def target(self, method: str, dataset: str) -> Target:
        """Return the target of a method's scores on a dataset."""
        target = self.evaluated_methods[method].target or self.run_file.target
        return target if target in ("contrastive", "span") else self.target_token(method, dataset)

    def target_token(self, method: str, dataset: str) -> TargetToken:
        """Return the explained token: a label word, or the generated token, as for open text."""
        target = self.evaluated_methods[method].target or self.run_file.target
        is_open = self.datasets[dataset].task == "generation"
        return "generated" if is_open or target == "generated" else "label"

    def cells(self, study: str = "main") -> list[Cell]:
        """Return the cells of a study, none if the run lacks it; variants have no protocol."""
        if study not in self.studies:
            return []
        part = self.studies[study]
        return [
            Cell(protocol, operator, model, variant, method, dataset)
            for protocol in (self.run_file.protocols if part.variants is None else ("",))
            for model in part.methods
            if model in self.models
            if not protocol or protocol in self.allowed(model, "protocols")
            for operator in (("",) if part.operators is None else allowed(protocol, part.operators))
            for variant in (("",) if part.variants is None else part.variants[model])
            for method in part.methods[model]
            for dataset in part.datasets
            if dataset in self.datasets_of(model)
        ]

    def methods_of(self, model: str) -> tuple[str, ...]:
        """Return the methods that explain a model."""
        return self.allowed(model, "methods")

    def datasets_of(self, model: str) -> tuple[str, ...]:
        """Return the datasets on which a model is evaluated."""
        return self.allowed(model, "datasets")

    def allowed(self, model: str, kind: str) -> tuple[str, ...]:
        """Return the run's protocols, methods or datasets that a model's restrictions allow."""
        names = self.run_file.protocols if kind == "protocols" else getattr(self, kind)
        allowed = getattr(self.run_file.restrictions.get(model), kind, None)
        return tuple(name for name in names if allowed in (None, "all") or name in allowed)
