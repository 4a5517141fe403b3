"""The run file: the selection, its evaluation and its presentation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from pisoft.config.base import Name, Protocol, Selection, Strict, Target, Unique
from pisoft.config.evaluation import (
    EvaluationSettings,
    RankingSettings,
    StatisticsSettings,
    StopSettings,
)
from pisoft.config.models import Resources
from pisoft.config.studies import HIDE, LayerStudy, MetricValidation, Operators, SanityChecks


class PromptSettings(Strict):
    """Construction of prompts."""

    max_tokens: int | None = Field(None, gt=0)
    """Longest prompt, tokens; null: limited by the model's context only."""


class GenerationSettings(Strict):
    """Greedy decoding and the explained steps.

    Generation settings in a model's folder, such as a repetition penalty, are ignored, except end
    tokens.
    """

    max_new_tokens: int = Field(50, gt=0, description="Longest open generation, tokens.")
    step_interval: int = Field(5, gt=0)
    """Explain every n-th generated token (paper: 1); `evaluation.step_interval` selects which of
    these are evaluated."""


class ExplorerSettings(Strict):
    """The page that shows single samples, token by token."""

    samples: int = Field(20, gt=0)
    """Samples shown per model and dataset, starting with the first."""


class QualitativeSettings(Strict):
    """Figures of example texts with each method's highest-scoring tokens."""

    top_share: float = Field(0.1, gt=0, le=1)
    """Fraction of a text's tokens that is highlighted."""


class FigureSettings(Strict):
    """Layout of figures."""

    width: int = Field(180, ge=80, le=200)
    """Width, mm: 180 for both columns of a paper, 88 for one. Narrow figures stack their panels;
    heatmaps of agreement stay 180 mm wide."""


class Restriction(Strict):
    """Limits one model to a part of the run; a missing key sets no limit."""

    protocols: tuple[Protocol, ...] | None = Field(None, min_length=1)
    """Routing protocols; null: all protocols of the run."""
    methods: Selection = Field("all", description="Methods of the run, or `all` of them.")
    datasets: Selection = Field("all", description="Datasets of the run, or `all` of them.")


Entries = dict[Name, dict[str, Any]]


class CatalogueAdditions(Strict):
    """Entries that only this run file uses; `extends: NAME` starts from a catalogue entry."""

    models: Entries = Field(default_factory=dict, description="Models.")
    masked_models: Entries = Field(default_factory=dict, description="Masked language models.")
    datasets: Entries = Field(default_factory=dict, description="Datasets.")
    methods: Entries = Field(default_factory=dict, description="Methods.")


class RunFile(Strict):
    """One run: the selected models, datasets and methods, and their evaluation."""

    run: Name = Field(description="Results go to `results/<run>/`.")
    seed: int = Field(1, ge=0, description="Seed of sampling, random scores and masks.")
    models: Selection = Field(description="Catalogue names, or `all`.")
    datasets: Selection = Field(description="Catalogue names, or `all`.")
    methods: Selection = Field("all", description="Catalogue names, or `all`.")
    masked_model: Name = "roberta-base"
    """Catalogue name of the masked language model, which some methods need."""
    protocols: Annotated[tuple[Protocol, ...], Unique] = Field(("dynamic",), min_length=1)
    """Routing protocols: attention is recomputed for every perturbed input (`dynamic`) or replayed
    from the clean input (`fixed`)."""
    restrictions: dict[Name, Restriction] = Field(default_factory=dict)
    """Limits on protocols, methods and datasets, by model; for models too expensive for a full
    run."""
    resources: dict[Name, Resources] = Field(default_factory=dict)
    """Job resources by model, in place of the catalogue's. Changing them recomputes nothing."""
    max_samples: int | None = Field(None, gt=0)
    """Most samples per dataset; null: the catalogue's number."""
    block_size: int = Field(16, gt=0)
    """Consecutive samples per block; a batch never crosses blocks."""
    local_root: str | None = None
    """Folder that replaces `{local_root}` in local paths."""
    prompts: PromptSettings = Field(default_factory=PromptSettings, description="Prompts.")
    generation: GenerationSettings = Field(default_factory=GenerationSettings)
    """Generation."""
    target: Target = "label"
    """Quantity that the scores explain. On datasets with label words: the label word that the model
    prefers (`label`); the token that it would generate, which need not begin a label word
    (`generated`); or the margin of the preferred word's logit over the next-best word's
    (`contrastive`). On open text: the generated token; with `contrastive`, the margin of its logit
    over the second most probable token's; with `span`, the joint log-probability of all explained
    tokens. A method's entry may override it."""
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    """Evaluation."""
    ranking: RankingSettings | None = Field(default_factory=RankingSettings)
    """Insertion and deletion; null: skipped."""
    statistics: StatisticsSettings = Field(default_factory=StatisticsSettings)
    """Intervals and tests."""
    stop: StopSettings | None = None
    """Decide comparisons by tests that allow stopping at any number of records; null: skipped."""
    sensitivity: bool = True
    """Measure how the ranking depends on the distance, the clamp, the number of draws and other
    choices, one at a time."""
    qualitative: QualitativeSettings | None = Field(default_factory=QualitativeSettings)
    """Figures of example texts; null: none."""
    figures: FigureSettings = Field(default_factory=FigureSettings)
    """Layout of figures."""
    layer_study: LayerStudy | None = None
    """Grad-ELLM at several depths; null: skipped."""
    metric_validation: MetricValidation | None = None
    """Tests of the metrics with constructed and permuted scores; null: skipped."""
    sanity_checks: SanityChecks | None = None
    """Tests of whether scores depend on the model and its input; null: skipped."""
    operators: Operators | None = None
    """Evaluation by other ablation operators; null: skipped."""
    explorer: ExplorerSettings | None = Field(default_factory=ExplorerSettings)
    """Attribution explorer; null: skipped."""
    catalogue: CatalogueAdditions = Field(default_factory=CatalogueAdditions)
    """Additional catalogue entries."""

    @model_validator(mode="after")
    def _evaluated_steps_are_explained(self) -> RunFile:
        explained, evaluated = self.generation.step_interval, self.evaluation.step_interval
        if evaluated is not None and evaluated % explained:
            nearest = max(1, round(evaluated / explained)) * explained
            raise ValueError(
                f"evaluation.step_interval: {evaluated} is not allowed with "
                f"generation.step_interval {explained}, because only explained tokens are "
                f"evaluated; allowed are its multiples, the nearest is {nearest}"
            )
        return self

    @model_validator(mode="after")
    def _records_have_values_to_stop_by(self) -> RunFile:
        if self.stop is not None and self.evaluation.pi_per_step is not None:
            raise ValueError(
                "stop: not allowed with evaluation.pi_per_step (preset `sparse`), because records "
                "that are measured at only some π have values that depend on each other"
            )
        return self

    @model_validator(mode="after")
    def _operators_fit(self) -> RunFile:
        operator = self.evaluation.operator
        if operator == HIDE and "fixed" in self.protocols:
            raise ValueError(
                "protocols: 'fixed' is not allowed with evaluation.operator 'hide', because hidden "
                "keys change the attention that it holds; allowed with it is 'dynamic'"
            )
        if self.operators is None:
            return self
        if operator in self.operators.others:
            raise ValueError(
                f"operators.others: '{operator}' is the run's own evaluation.operator; leave it out"
            )
        if HIDE in self.operators.others and self.evaluation.mask != "token":
            raise ValueError(
                "operators.others: 'hide' is not allowed with evaluation.mask "
                f"'{self.evaluation.mask}', because it hides whole tokens"
            )
        return self
