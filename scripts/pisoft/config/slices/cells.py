"""Slices of the jobs that generate, attribute and evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from pisoft.config.base import Erasure, Protocol, Scope, Task
from pisoft.config.datasets import (
    DatasetEntry,
)
from pisoft.config.evaluation import DrawSettings, RankingSettings, ScoreSettings
from pisoft.config.operators import allowed, protocol_and_operator
from pisoft.config.parts import first_place
from pisoft.config.slices.base import ModelSlice, Slice, model_slice
from pisoft.config.trust import SEARCH, Control, Permuted
from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
    from pisoft.config.resolved import Config

OPEN_GENERATION = "open generation has no label word that could flip"


class GenerateSlice(Slice):
    """Settings of `generate`."""

    model: ModelSlice
    task: Task
    max_new_tokens: int
    step_interval: int
    block_size: int
    token_budget: int | None  # None: by device


class AttributeSlice(Slice):
    """Settings of `attribute`."""

    model: ModelSlice
    masked_model: ModelSlice | None  # None: the method needs none
    randomised_layers: int | None  # of the model, the last ones; None: it is as it was trained
    method: str
    options: dict[str, Any]
    seed: int
    block_size: int
    token_budget: int | None  # None: by device


class ImportSlice(Slice):
    """Settings of `import_scores`; where the file lies changes no score."""

    model: str
    dataset: str


class ConstructSlice(Slice):
    """Settings of `construct_scores`."""

    source: Control | Permuted = Field(discriminator="kind")
    scope: Scope
    seed: int


class EvaluateSlice(Slice):
    """Settings of `evaluate_soft`."""

    model: ModelSlice
    compile: bool
    protocol: Protocol
    evaluation: DrawSettings  # with the operator of these draws
    seed: int
    block_size: int
    first_place: int  # of the samples, in the dataset's order of sampling
    token_budget: int | None  # None: by device


class InspectSlice(Slice):
    """Settings of `inspect_inputs`."""

    model: ModelSlice
    protocol: Protocol
    operators: tuple[Erasure, ...]
    scope: Scope
    pi_grid: tuple[float, ...]
    draws: int
    seed: int
    token_budget: int | None  # None: by device


class RankingSlice(Slice):
    """Settings of `evaluate_ranking`."""

    model: ModelSlice
    not_applicable: str | None  # why the dataset cannot be ranked; None: it can
    ranking: RankingSettings
    scope: Scope
    seed: int
    block_size: int
    token_budget: int | None  # None: by device


def generate_slice(config: Config, model: str, dataset: str) -> GenerateSlice:
    """Return what `generate` depends on."""
    return GenerateSlice(
        model=model_slice(model, config.models[model]),
        task=config.datasets[dataset].task,
        max_new_tokens=config.run_file.generation.max_new_tokens,
        step_interval=config.run_file.generation.step_interval,
        block_size=config.run_file.block_size,
        token_budget=config.models[model].token_budget,
    )


def attribute_slice(config: Config, model: str, method: str) -> AttributeSlice:
    """Return what `attribute` depends on."""
    chosen = config.evaluated_methods[method]
    assert chosen.file is not None
    masked = config.run_file.masked_model if chosen.needs_masked_model else None
    loaded = f"{model}-shuffled-labels" if chosen.shuffled_labels else model
    return AttributeSlice(
        model=model_slice(loaded, config.models[model]),
        masked_model=model_slice(masked, config.masked_models[masked]) if masked else None,
        randomised_layers=chosen.randomised_layers,
        method=chosen.file,
        options=chosen.options,
        seed=config.run_file.seed,
        block_size=config.run_file.block_size,
        token_budget=config.models[model].token_budget,
    )


def import_slice(config: Config, model: str, dataset: str) -> ImportSlice:
    """Return what `import_scores` depends on, besides the file with the scores."""
    return ImportSlice(model=model, dataset=dataset)


def construct_slice(config: Config, method: str) -> ConstructSlice:
    """Return what `construct_scores` depends on, besides the scores that a twin is of."""
    source = config.evaluated_methods[method].source
    assert isinstance(source, Control | Permuted)
    return ConstructSlice(
        source=source, scope=config.run_file.evaluation.scope, seed=config.run_file.seed
    )


def evaluate_slice(
    config: Config, protocol: str, model: str, method: str, part: str
) -> EvaluateSlice:
    """Return what `evaluate_soft` depends on; see :func:`pisoft.config.operators.ways`."""
    searched = method == SEARCH and SEARCH in config.controls
    settings = search_settings(config) if searched else draw_settings(config)
    routing, operator = protocol_and_operator(protocol, settings.operator)
    return EvaluateSlice(
        model=model_slice(model, config.models[model]),
        compile=config.models[model].compile,
        protocol=routing,
        evaluation=settings.model_copy(update={"operator": operator}),
        seed=config.run_file.seed,
        block_size=config.run_file.block_size,
        first_place=first_place(part),
        token_budget=config.models[model].token_budget,
    )


def inspect_slice(config: Config, protocol: Protocol, model: str) -> InspectSlice:
    """Return what `inspect_inputs` depends on.

    Raises:
        BenchmarkError: the run file does not ask for it.
    """
    asked, evaluation = config.run_file.operators, config.run_file.evaluation
    if asked is None:
        raise BenchmarkError("operators: is null, so no inputs are inspected")
    return InspectSlice(
        model=model_slice(model, config.models[model]),
        protocol=protocol,
        operators=allowed(protocol, (evaluation.operator, *asked.others)),
        scope=evaluation.scope,
        pi_grid=evaluation.pi_grid,
        draws=asked.draws,
        seed=config.run_file.seed,
        token_budget=config.models[model].token_budget,
    )


def score_settings(config: Config) -> ScoreSettings:
    """Return the part of the run's evaluation settings that its scores depend on."""
    part = config.run_file.evaluation.model_dump(include=set(ScoreSettings.model_fields))
    return ScoreSettings.model_validate(part)


def draw_settings(config: Config) -> DrawSettings:
    """Return the part of the run's evaluation settings that its draws depend on."""
    part = config.run_file.evaluation.model_dump(include=set(DrawSettings.model_fields))
    return DrawSettings.model_validate(part)


def search_settings(config: Config) -> DrawSettings:
    """Return those of masks that are searched: many, which keep the same number of tokens."""
    assert config.run_file.trust is not None
    update = {"sampler": "count", "draws": config.run_file.trust.search}
    return draw_settings(config).model_copy(update=update)


def ranking_slice(config: Config, model: str, dataset: str) -> RankingSlice:
    """Return what `evaluate_ranking` depends on.

    Raises:
        BenchmarkError: the run file switches insertion and deletion off.
    """
    return RankingSlice(
        model=model_slice(model, config.models[model]),
        not_applicable=ranking_obstacle(config.datasets[dataset]),
        ranking=_ranking_settings(config),
        scope=config.run_file.evaluation.scope,
        seed=config.run_file.seed,
        block_size=config.run_file.block_size,
        token_budget=config.models[model].token_budget,
    )


def ranked_datasets(config: Config) -> tuple[str, ...]:
    """Return the datasets that insertion and deletion are computed on; none if switched off."""
    if config.run_file.ranking is None:
        return ()
    return tuple(name for name, entry in config.datasets.items() if ranking_obstacle(entry) is None)


def evidence_datasets(config: Config) -> tuple[str, ...]:
    """Return the datasets whose records have known evidence."""
    return tuple(name for name, entry in config.datasets.items() if entry.has_evidence)


def _ranking_settings(config: Config) -> RankingSettings:
    if config.run_file.ranking is None:
        raise BenchmarkError("ranking: is null, which switches insertion and deletion off")
    return config.run_file.ranking


def ranking_obstacle(entry: DatasetEntry) -> str | None:
    """Return why a dataset cannot be ranked by flips of the label word; None if it can."""
    return None if entry.task == "classification" else OPEN_GENERATION
