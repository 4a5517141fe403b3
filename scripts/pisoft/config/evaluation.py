"""Settings of the evaluation: draws, insertion and deletion, uncertainty, stopping."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag, model_validator

from pisoft.config.base import (
    Ablation,
    Clamp,
    FlipOf,
    Increasing,
    Name,
    Normalisation,
    Operator,
    Replacements,
    Sampler,
    Scope,
    ScoresOf,
    Strict,
)

Preset = Literal["paper", "efficient", "sparse"]

# Defaults of each preset.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"sampler": "iid", "draws": 15},
    "efficient": {"sampler": "latin", "draws": 1},
    "sparse": {"sampler": "latin", "draws": 1, "pi_per_step": 2},
}

# Where Soft-NS is clamped at 0, in words.
CLAMPS: dict[Clamp, str] = {
    "draw": "clamped at 0 for every draw, before averaging over them",
    "mean": "clamped at 0 for every step, after averaging over its draws",
    "none": "not clamped at 0",
}

MOST_DRAWS = 10_000  # per retaining probability; a step's masks lie in memory

SMALLEST_BUDGET_GRID = 3  # retaining probabilities needed to estimate variance from one draw each


class DrawBudget(Strict):
    """Draws are added to a cell until its means are precise enough."""

    target_half_width: float = Field(gt=0)
    """Drawing stops when the 95 % Monte Carlo intervals of the cell's mean AUCs, for π-Soft-NS
    and π-Soft-NC, have this half-width."""
    max: int = Field(15, gt=1, le=MOST_DRAWS)
    """Most draws per retaining probability."""


# A tag in brackets is left out of the key path in error messages.
Draws = Annotated[
    Annotated[int, Field(gt=0, le=MOST_DRAWS), Tag("[number]")]
    | Annotated[DrawBudget, Tag("[budget]")],
    Discriminator(lambda value: "[budget]" if isinstance(value, dict | DrawBudget) else "[number]"),
]


class ScoreSettings(Strict):
    """Mapping from raw scores to the scores that are evaluated."""

    scope: Scope = Field(
        "content",
        description="Perturbable tokens: the record's (`content`), the user's turn (`user_turn`), "
        "all but the first (`all_but_bos`), or all of the prompt (`all`).",
    )
    normalisation: Normalisation = "minmax"
    """Maps the raw scores of a step to [0, 1]."""
    step_interval: int | None = Field(None, gt=0)
    """Evaluate every n-th generated token (paper: 5), a multiple of `generation.step_interval`;
    null: every explained one."""
    step_scores: ScoresOf = "own"
    """Raw scores by which a step is evaluated: its `own`, or the mean over all explained steps
    of the sample (`aggregated`: one heatmap per sample, as in the paper's appendix). For answers
    of one step, both are the same."""


class DrawSettings(ScoreSettings):
    """Mapping from scores to masks: everything that a cell's draws depend on."""

    score_floor: float = Field(1e-6, ge=1e-16, lt=0.5)
    """Scores are clipped to [floor, 1 - floor] before calibration, so that every π is feasible.
    Below 1e-16, 1 - floor would round to 1."""
    pi_grid: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], Increasing] = Field(
        tuple(round(0.05 * k, 2) for k in range(1, 20)), min_length=2
    )
    """Target retaining probabilities, increasing, each in (0, 1)."""
    pi_per_step: int | None = Field(None, gt=0)
    """Measure each step at this many retaining probabilities of `pi_grid`, spread evenly over
    the grid and over the steps of a dataset; null: at all of them. Means over samples stay
    unbiased."""
    sampler: Sampler = "iid"
    """Masks are independent (`iid`), stratified over draws and retaining probabilities for a
    smaller variance (`latin`), or keep exactly round(π·m) of m tokens (`count`, a different
    metric)."""
    operator: Ablation = "zero"
    """How a token is ablated. Its input embedding becomes zero (`zero`, as in the paper), the mean
    embedding of the vocabulary (`mean`), or the embedding of the unknown token, else of padding or
    end of sequence (`unknown`); or attention cannot see its keys (`hide`, dynamic routing only)."""
    mask: Literal["token", "element"] = "token"
    """One bit per token, or one per element of its embedding, as in the code released with the
    original metrics."""
    draws: Draws = 15
    """Masks per retaining probability, or a budget: `{target_half_width: 0.005, max: 15}`."""
    minimum_h0: float = Field(1e-4, gt=0, lt=1)
    """Ratios are undefined where the zero-baseline distance H₀ is smaller. In half precision, the
    numerical noise of the cell's H₀ is the bound if it is larger."""

    @model_validator(mode="after")
    def _draws_fit(self) -> DrawSettings:
        if isinstance(self.draws, DrawBudget) and len(self.pi_grid) < SMALLEST_BUDGET_GRID:
            raise ValueError(
                f"a budget of draws needs at least {SMALLEST_BUDGET_GRID} retaining probabilities "
                f"in pi_grid, got {list(self.pi_grid)}"
            )
        if self.pi_per_step is not None and self.pi_per_step > len(self.pi_grid):
            raise ValueError(
                f"pi_per_step: {self.pi_per_step} is more than the {len(self.pi_grid)} retaining "
                "probabilities of pi_grid"
            )
        if self.pi_per_step is not None and isinstance(self.draws, DrawBudget):
            raise ValueError(
                "pi_per_step is not allowed where draws is a budget: its error needs every "
                "retaining probability of a step; give a number of draws"
            )
        for key, value, verb in (("sampler", "count", "counts"), ("operator", "hide", "hides")):
            if getattr(self, key) == value and self.mask != "token":
                raise ValueError(
                    f"{key}: '{value}' is not allowed with mask '{self.mask}', because it {verb} "
                    "whole tokens; allowed with it is 'token'"
                )
        return self

    @property
    def most_draws(self) -> int:
        """The number of draws, or the maximum of a budget."""
        return self.draws.max if isinstance(self.draws, DrawBudget) else self.draws


class EvaluationSettings(DrawSettings):
    """The faithfulness metrics."""

    preset: Preset = "paper"
    """Defaults of `sampler`, `draws` and `pi_per_step`, which estimate the same numbers: iid and
    15 (`paper`), latin and 1 (`efficient`), or latin and 1 at 2 of the retaining probabilities
    (`sparse`: more records for the same time)."""
    clamp: Clamp = "draw"
    """Soft-NS is clamped at 0 in every draw (`draw`; paper, Eq. 4), in the mean of a step's draws
    (`mean`, which depends on their number), or nowhere (`none`)."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {**PRESETS.get(str(value.get("preset", "paper")), {}), **value}
        return value

    @model_validator(mode="after")
    def _no_clamped_mean_with_a_budget(self) -> EvaluationSettings:
        if self.clamp == "mean" and isinstance(self.draws, DrawBudget):
            raise ValueError(
                "clamp: 'mean' is not allowed where draws is a budget, because a clamped mean "
                "depends on their number; allowed are 'draw' and 'none'"
            )
        return self


class RankingSettings(Strict):
    """Insertion and deletion; `evaluation.scope` applies."""

    operator: Operator = "remove"
    """A deleted token is left out, which shortens the prompt (`remove`), or its input embedding
    becomes zero (`zero`)."""
    flip_of: FlipOf = "label_word"
    """The answer whose flip is counted: the preferred label word (`label_word`), or the most
    probable next token, which need not be a label word (`first_token`). The paper leaves this
    open."""
    counterfactuals: Replacements | None = None
    """Also replace the highest-scoring tokens until the answer flips, by tokens that the masked
    model proposes (`masked_model`) or that are drawn from the dataset's prompts (`records`); null:
    skipped."""
    answer_deletion: bool = False
    """Also delete tokens where the answer is generated, and measure how far the log-probability of
    all its explained tokens falls: the plain curve, RISE and MAS."""
    steps: int = Field(20, ge=1, le=1000)
    """Number of equal steps; paper: 20, each of 5 % of the tokens."""


class StatisticsSettings(Strict):
    """Intervals and tests."""

    resamples: int = Field(10_000, ge=100, le=1_000_000)
    """Bootstrap resamples, and sign flips per permutation test."""
    equivalence_margin: float | None = Field(None, gt=0)
    """Means that differ by less, in units of the metric, count as equivalent; tables mark methods
    that are significantly equivalent to the best. null: not tested."""


class StopSettings(Strict):
    """Comparisons of methods, decided by sequential tests that allow stopping at any record.

    A comparison is decided once the confidence sequence of its mean difference excludes 0 or lies
    within the margin.
    """

    against: Literal["control", "leader", "all_pairs"] = "control"
    """Reference of the comparisons: random scores (`control`), the best method (`leader`), or
    every other method (`all_pairs`)."""
    margin: float | None = Field(None, gt=0)
    """Means that differ by less, in units of the metric, count as equal; null:
    `statistics.equivalence_margin`."""
    clip_ns: float = Field(1, gt=0, le=1)
    """Bound at which differences of π-Soft-NS are clipped; 1: no clipping. A smaller clip needs
    fewer records; choose it before you look at results."""
    clip_nc: float = Field(2, gt=0)
    """The same for π-Soft-NC, whose differences are unbounded."""
    pool: dict[Name, PositiveInt] = Field(default_factory=dict)
    """For each dataset, the number of records from which the run's records are drawn; without
    one, the dataset counts as infinite."""
