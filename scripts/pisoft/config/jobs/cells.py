"""Jobs of single cells: answers, scores and their evaluation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from pisoft.config.base import Ablation, Protocol, Scope, ScoresOf, Target, TargetToken, Task
from pisoft.config.evaluation import DrawSettings, RankingSettings
from pisoft.config.jobs.fields import (
    BlockSize,
    DatasetName,
    Loaded,
    LoadedModel,
    ModelName,
    ProtocolName,
    ScopeOfRun,
    Seed,
    TargetOfMethod,
    TokenBudget,
    masked_model,
    replacing_model,
)
from pisoft.config.resolved import Config
from pisoft.config.run_file import GenerationSettings
from pisoft.config.settings import At, JobSettings
from pisoft.config.shards import enclosing_part, first_sample, sample_range
from pisoft.config.studies import RANDOM, Control, Permuted, allowed


class GenerateJob(GenerationSettings, JobSettings, section="run_file.generation"):
    """Settings of `generate`."""

    model: Loaded
    task: Annotated[Task, At("datasets.{dataset}.task")]
    block_size: BlockSize
    token_budget: TokenBudget


def _rows(config: Config, model: str, part: str) -> tuple[int, int] | None:
    larger = enclosing_part(config, model, part)
    if part == larger:
        return None
    first, end = sample_range(part) or (0, 0)
    return first - first_sample(larger), end - first_sample(larger)


# End-exclusive range of the prompts in the job's input that it processes; None: all.
Rows = Annotated[tuple[int, int] | None, At(_rows)]


class CellSettings(JobSettings):
    """Settings of jobs that run a model over the blocks of a cell."""

    model: Loaded
    rows: Rows = None
    seed: Seed
    block_size: BlockSize
    token_budget: TokenBudget


def _reinitialised_layers(config: Config, model: str, variant: str) -> int | None:
    variants = config.studies["sanity_checks"].variants if variant else None
    return variants[model][variant] if variants else None


def _step_scores(config: Config, method: str) -> ScoresOf | None:
    is_random = config.evaluated_methods[method].file == RANDOM
    return config.run_file.evaluation.step_scores if is_random else None


def _scope(config: Config, method: str) -> Scope | None:
    return config.run_file.evaluation.scope if config.evaluated_methods[method].scoped else None


class AttributeJob(CellSettings, section="evaluated_methods.{method}"):
    """Settings of `attribute`."""

    masked_model: Annotated[LoadedModel | None, At(masked_model)]  # None: the method needs none
    # Number of last layers that are re-initialised; None: the trained model.
    reinitialised_layers: Annotated[int | None, At(_reinitialised_layers)]
    target: TargetOfMethod
    # Whether random scores are drawn per step or per sample; None: other methods.
    step_scores: Annotated[ScoresOf | None, At(_step_scores)]
    # Perturbable tokens; None: the method does not depend on the scope.
    scope: Annotated[Scope | None, At(_scope)]
    method: Annotated[str, At("evaluated_methods.{method}.file")]
    options: dict[str, Any]
    # Index of the part's first sample in sampling order: selects the steps repeated in float32.
    first_sample: Annotated[int, At(first_sample)]


class ExportJob(JobSettings, section="run_file"):
    """Settings of `export_prompts`."""

    target: Target


class ImportJob(JobSettings):
    """Settings of `import_scores`; the path of the file changes no score."""

    model: ModelName
    dataset: DatasetName
    target: TargetOfMethod


class ConstructJob(JobSettings, section="evaluated_methods.{method}"):
    """Settings of `construct_scores`; the scores to permute are an input."""

    source: Control | Permuted = Field(discriminator="kind")
    rows: Rows = None
    scope: ScopeOfRun
    # Whether noise is drawn per step or per sample.
    step_scores: Annotated[ScoresOf, At("run_file.evaluation.step_scores")]
    seed: Seed


def _draws(config: Config, operator: str) -> DrawSettings:
    """Return the run's evaluation settings that the draws depend on."""
    evaluation = config.run_file.evaluation
    settings = evaluation.model_dump(include=set(DrawSettings.model_fields))
    return DrawSettings(**settings | {"operator": operator or evaluation.operator})


class EvaluateJob(CellSettings):
    """Settings of `evaluate_soft`."""

    compile: Annotated[bool, At("models.{model}.compile")]
    protocol: ProtocolName
    evaluation: Annotated[DrawSettings, At(_draws)]  # with the operator of these draws
    # Token whose log-probability is measured.
    target: Annotated[
        TargetToken, At(lambda config, method, dataset: config.target_token(method, dataset))
    ]
    # Index of the part's first sample in sampling order.
    first_sample: Annotated[int, At(first_sample)]


def _operators(config: Config, protocol: Protocol) -> tuple[Ablation, ...]:
    other_operators = config.run_file.operators.others if config.run_file.operators else ()
    return allowed(protocol, (config.run_file.evaluation.operator, *other_operators))


class InspectJob(JobSettings, section="run_file.evaluation"):
    """Settings of `inspect_inputs`."""

    model: Loaded
    protocol: ProtocolName
    operators: Annotated[tuple[Ablation, ...], At(_operators)]
    step_interval: int | None
    scope: Scope
    pi_grid: tuple[float, ...]
    draws: Annotated[int, At("run_file.operators.draws")]
    seed: Seed
    token_budget: TokenBudget


def _obstacle(config: Config, dataset: str) -> str | None:
    return None if dataset in ranked_datasets(config) else config.datasets[dataset].ranking_obstacle


class RankingJob(CellSettings):
    """Settings of `evaluate_ranking`."""

    # Reason why the dataset has no ranking; None: it has one.
    not_applicable: Annotated[str | None, At(_obstacle)]
    ranking: Annotated[RankingSettings, At("run_file.ranking")]
    # Model that proposes replacements for counterfactuals; None: no model does.
    masked_model: Annotated[LoadedModel | None, At(replacing_model)] = None
    scope: ScopeOfRun


def ranked_datasets(config: Config) -> dict[str, bool]:
    """Return the datasets on which tokens are deleted, and whether each has label words."""
    settings = config.run_file.ranking
    if settings is None:
        return {}
    has_label = {name: not entry.ranking_obstacle for name, entry in config.datasets.items()}
    return {name: label for name, label in has_label.items() if label or settings.answer_deletion}
