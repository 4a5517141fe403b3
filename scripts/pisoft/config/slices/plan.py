"""The slice of the configuration that the cost of a run depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from pisoft.config.base import Cell, Strict, Task
from pisoft.config.datasets import EmbeddedDataset, ExpectedRecords, Message
from pisoft.config.evaluation import DrawSettings, RankingSettings
from pisoft.config.models import (
    TOKEN_BUDGETS,
    ModelSource,
    TrainedMaskedModel,
)
from pisoft.config.parts import parts, sample_limit
from pisoft.config.run_file import GenerationSettings
from pisoft.config.slices.base import Slice
from pisoft.config.slices.cells import draw_settings, search_settings

if TYPE_CHECKING:
    from pisoft.config.resolved import Config


class PlannedModel(Strict):
    """What a model's jobs cost depends on."""

    source: ModelSource = Field(discriminator="kind")
    dtype: str
    quantization: str
    token_budget: int
    parts: dict[str, tuple[str, ...]]  # by dataset, what are jobs of their own


class PlannedDataset(Strict):
    """What a dataset's jobs cost depends on."""

    task: Task
    messages: tuple[Message, ...]
    samples: int | None
    records: int | None  # of the source; None: not known
    expected: ExpectedRecords | None


class PlannedMethod(Strict):
    """What a method's jobs cost depends on."""

    method: str | None  # None: its scores were made elsewhere
    options: dict[str, Any]


class PlanSlice(Slice):
    """What a run costs depends on: `make plan`, and settings of `summarise_cost`."""

    models: dict[str, PlannedModel]
    shuffled_models: tuple[str, ...]  # those with a twin that is trained on shuffled labels
    masked_models: dict[str, TrainedMaskedModel]  # those that the workflow trains
    datasets: dict[str, PlannedDataset]
    methods: dict[str, PlannedMethod]  # every evaluated one
    cells: tuple[Cell, ...]  # of the main tables
    study_cells: tuple[Cell, ...]  # of the layer study, permuted twins, and other operators
    control_cells: tuple[Cell, ...]
    search_cells: tuple[Cell, ...]
    sanity_cells: tuple[Cell, ...]  # that are attributed alone
    inspected: tuple[tuple[str, str, str], ...]  # protocol, model, dataset
    inspections: int  # operators times masks, at each retaining probability
    max_prompt_tokens: int | None
    generation: GenerationSettings
    block_size: int
    evaluation: DrawSettings
    search: DrawSettings | None  # of the control whose draws are searched
    ranking: RankingSettings | None


def plan_slice(config: Config) -> PlanSlice:
    """Return what a run costs depends on; labels and resources are no part of it."""
    run_file = config.run_file
    operators = run_file.operators
    return PlanSlice(
        models={name: _planned_model(config, name) for name in config.models},
        shuffled_models=config.shuffled_models,
        masked_models=_trained_masked_models(config),
        datasets={name: _planned_dataset(config, name) for name in config.datasets},
        methods={
            name: PlannedMethod(method=method.file, options=method.options)
            for name, method in config.evaluated_methods.items()
        },
        cells=tuple(config.cells),
        study_cells=(*config.study_cells, *config.twin_cells, *config.operator_cells),
        control_cells=tuple(config.control_cells),
        search_cells=tuple(config.search_cells),
        sanity_cells=tuple(config.sanity_cells),
        inspected=tuple(config.inspected),
        inspections=0 if operators is None else operators.draws * (1 + len(operators.others)),
        max_prompt_tokens=run_file.prompts.max_tokens,
        generation=run_file.generation,
        block_size=run_file.block_size,
        evaluation=draw_settings(config),
        search=search_settings(config) if config.search_cells else None,
        ranking=run_file.ranking,
    )


def _planned_model(config: Config, name: str) -> PlannedModel:
    entry = config.models[name]
    return PlannedModel(
        source=entry.source,
        dtype=entry.dtype,
        quantization=entry.quantization,
        token_budget=entry.token_budget or TOKEN_BUDGETS["cuda" if entry.resources.gpu else "cpu"],
        parts={dataset: tuple(parts(config, name, dataset)) for dataset in config.datasets},
    )


def _planned_dataset(config: Config, name: str) -> PlannedDataset:
    entry = config.datasets[name]
    expected = None if entry.expected is None else entry.expected.records
    return PlannedDataset(
        task=entry.task,
        messages=entry.messages,
        samples=sample_limit(config, name),
        records=entry.source.records if isinstance(entry.source, EmbeddedDataset) else expected,
        expected=entry.expected,
    )


def _trained_masked_models(config: Config) -> dict[str, TrainedMaskedModel]:
    """Return the masked models that a rule trains, if a method needs them."""
    if not any(method.needs_masked_model for method in config.evaluated_methods.values()):
        return {}
    sources = {name: entry.source for name, entry in config.masked_models.items()}
    return {name: s for name, s in sources.items() if isinstance(s, TrainedMaskedModel)}
