"""Fields shared by several jobs: names, labels and loaded models."""

from __future__ import annotations

from typing import Annotated, Literal

from pisoft.config.base import Protocol, Scope, Target
from pisoft.config.cells import SHUFFLED_LABELS
from pisoft.config.models import MaskedModelEntry, ModelEntry
from pisoft.config.resolved import Config
from pisoft.config.settings import At, JobSettings


class LoadedModel(JobSettings):
    """Identity of a loaded model; weights of local and trained models are input files."""

    name: str
    repository: str | None = None  # None: the weights lie in the folder given to the script
    revision: str | None = None
    dtype: str
    quantization: str = "none"
    device: str


def loaded_model(name: str, entry: ModelEntry | MaskedModelEntry) -> LoadedModel:
    """Return the identity of a loaded model."""
    entry_fields = entry.model_dump(include={"dtype", "quantization", "device"})
    source_fields = entry.source.model_dump(include={"repository", "revision"})
    return LoadedModel(name=name, **entry_fields, **source_fields)


def _loaded(config: Config, model: str, variant: str) -> LoadedModel:
    name = f"{model}-{variant}" if variant == SHUFFLED_LABELS else model
    return loaded_model(name, config.models[model])


def masked_model(config: Config, method: str) -> LoadedModel | None:
    """Return the run's masked model if a method needs it."""
    return _masked_model(config) if config.evaluated_methods[method].needs_masked_model else None


def replacing_model(config: Config, dataset: str) -> LoadedModel | None:
    """Return the run's masked model if the counterfactuals of a dataset need it."""
    needed = config.counterfactuals_of(dataset) == "masked_model"
    return _masked_model(config) if needed else None


def _masked_model(config: Config) -> LoadedModel:
    name = config.run_file.masked_model
    return loaded_model(name, config.masked_models[name])


Loaded = Annotated[LoadedModel, At(_loaded)]
DatasetName = Annotated[str, At("{dataset}")]
ModelName = Annotated[str, At("{model}")]
ProtocolName = Annotated[Protocol, At("{protocol}")]
Seed = Annotated[int, At("run_file.seed")]
BlockSize = Annotated[int, At("run_file.block_size")]
TokenBudget = Annotated[int | None, At("models.{model}.token_budget")]  # None: by device
# None: equivalence is not tested.
EquivalenceMargin = Annotated[float | None, At("run_file.statistics.equivalence_margin")]
# Target of the scores: see `target` in the run file.
TargetOfMethod = Annotated[
    Target, At(lambda config, method, dataset: config.target(method, dataset))
]
ScopeOfRun = Annotated[Scope, At("run_file.evaluation.scope")]
ModelLabels = Annotated[dict[str, str], At("models.*.label")]
DatasetLabels = Annotated[dict[str, str], At("datasets.*.label")]
# Types of weights and activations, which determine the noise floor.
NumberTypes = Annotated[dict[str, str], At("models.*.number_type")]
Kind = Literal["models", "datasets"]  # of a hub repository
