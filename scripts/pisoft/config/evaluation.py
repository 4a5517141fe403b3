"""How attributions are evaluated: draws, insertion and deletion, uncertainty."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from pisoft.config.base import (
    Ablation,
    Clamp,
    FlipOf,
    Increasing,
    Normalisation,
    Operator,
    Sampler,
    Scope,
    ScoresOf,
    Strict,
)

Preset = Literal["paper", "efficient"]

# What a preset says about keys that are not given.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"sampler": "iid", "draws": 15},
    "efficient": {"sampler": "latin", "draws": 1},
}

# Where Soft-NS is clamped at 0, in words.
CLAMPS: dict[Clamp, str] = {
    "draw": "clamped at 0 for every draw, before averaging over them",
    "mean": "clamped at 0 for every step, after averaging over its draws",
    "none": "not clamped at 0",
}

FIRST_DRAWS = 1  # of a budget
MOST_DRAWS = 10_000  # per retaining probability; a step's masks lie in memory

SMALLEST_BUDGET_GRID = 3  # retaining probabilities by which a single draw shows how much it varies


class DrawBudget(Strict):
    """Draws are added to a cell until its means are known well enough."""

    target_half_width: float = Field(gt=0)
    """Half-width of the 95 % Monte Carlo interval of the cell's mean AUC of π-Soft-NS and of
    π-Soft-NC, at which no more draws are added."""
    max: int = Field(15, gt=FIRST_DRAWS, le=MOST_DRAWS)
    """Most draws per retaining probability."""


# A tag in brackets is left out of the key path in error messages.
Draws = Annotated[
    Annotated[int, Field(gt=0, le=MOST_DRAWS), Tag("[number]")]
    | Annotated[DrawBudget, Tag("[budget]")],
    Discriminator(lambda given: "[budget]" if isinstance(given, dict | DrawBudget) else "[number]"),
]


class ScoreSettings(Strict):
    """How raw scores become the scores that are evaluated."""

    scope: Scope = Field("content", description="Tokens a perturbation may touch.")
    normalisation: Normalisation = "minmax"
    """How raw scores of one step become scores in [0, 1]."""
    step_interval: int | None = Field(None, gt=0)
    """Every how many generated tokens one is evaluated (paper: 5), a multiple of
    `generation.step_interval`; null: every explained one."""
    step_scores: ScoresOf = "own"
    """Raw scores that a step is evaluated by: its `own`, or the mean of those of all explained
    steps of the sample (`aggregated`: one heatmap per sample, as in the paper's appendix). It makes
    no difference to answers of one step."""


class DrawSettings(ScoreSettings):
    """How scores become masks: what the draws of a cell depend on."""

    score_floor: float = Field(1e-6, ge=1e-16, lt=0.5)
    """Scores are clipped to [floor, 1 - floor] to calibrate; a smaller floor would round 1 - floor
    to 1, of which every power is 1."""
    pi_grid: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], Increasing] = Field(
        tuple(round(0.05 * k, 2) for k in range(1, 20)), min_length=2
    )
    """Target retaining probabilities, increasing, each in (0, 1)."""
    sampler: Sampler = "iid"
    """Masks drawn independently (`iid`); or spread evenly over draws and retaining probabilities
    (`latin`), so that means vary less; or such that every one keeps the same number of tokens
    (`count`), round(π·m) of m, which is another metric."""
    operator: Ablation = "zero"
    """What happens to a token that a mask does not keep: its input embedding is multiplied by 0
    (`zero`, as in the paper), or becomes the mean of the vocabulary's (`mean`), or that of the
    tokenizer's unknown, else padding, else end token (`unknown`); or its keys are hidden from all
    attention, which only `dynamic` routing has (`hide`)."""
    mask: Literal["token", "element"] = "token"
    """One bit per token, or one per element of its embedding, as the code released with the
    original metrics has it."""
    draws: Draws = 15
    """Monte Carlo masks per retaining probability, or a budget:
    `{target_half_width: 0.005, max: 15}`."""
    minimum_h0: float = Field(1e-4, gt=0, lt=1)
    """Zero-baseline distance below which a ratio is undefined. In half precision it is the noise,
    if that is more: the largest change of a cell's H₀ that float32 makes."""

    @model_validator(mode="after")
    def _draws_fit(self) -> DrawSettings:
        if isinstance(self.draws, DrawBudget) and len(self.pi_grid) < SMALLEST_BUDGET_GRID:
            raise ValueError(
                f"a budget of draws needs at least {SMALLEST_BUDGET_GRID} retaining probabilities "
                f"in pi_grid, got {list(self.pi_grid)}"
            )
        for key, value, does in (("sampler", "count", "counts"), ("operator", "hide", "hides")):
            if getattr(self, key) == value and self.mask != "token":
                raise ValueError(
                    f"{key}: '{value}' is not allowed with mask '{self.mask}', because it {does} "
                    "whole tokens; allowed with it is 'token'"
                )
        return self

    @property
    def most_draws(self) -> int:
        """The number of draws, or the most that a budget allows."""
        return self.draws.max if isinstance(self.draws, DrawBudget) else self.draws


class EvaluationSettings(DrawSettings):
    """The faithfulness metrics."""

    preset: Preset = "paper"
    """Defaults of `sampler` and `draws`: `paper` for iid, 15; `efficient` for latin, 1, which
    estimates the same numbers."""
    clamp: Clamp = "draw"
    """Where Soft-NS is clamped at 0: each draw's (paper, Eq. 4), the mean over a step's draws,
    which depends on their number, or nowhere."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, given: Any) -> Any:
        if isinstance(given, dict):
            return {**PRESETS.get(str(given.get("preset", "paper")), {}), **given}
        return given

    @model_validator(mode="after")
    def _no_clamped_mean_with_a_budget(self) -> EvaluationSettings:
        if self.clamp == "mean" and isinstance(self.draws, DrawBudget):
            raise ValueError(
                "clamp: 'mean' is not allowed where draws is a budget, because a clamped mean "
                "depends on their number; allowed are 'draw' and 'none'"
            )
        return self


class RankingSettings(Strict):
    """Insertion and deletion, for datasets of label words; `evaluation.scope` holds here, too."""

    operator: Operator = "remove"
    """How a token is deleted: left out, so that the prompt is shorter (`remove`), or its input
    embedding multiplied by 0 (`zero`)."""
    flip_of: FlipOf = "label_word"
    """The answer that may flip: the label word that the model prefers over the others
    (`label_word`), or the first token that it would generate, which need not begin a label word
    (`first_token`). The paper does not say."""
    steps: int = Field(20, ge=1, le=1000)
    """Steps of equal share; paper: 20, each of 5 % of the tokens."""


class StatisticsSettings(Strict):
    """How the uncertainty of the tables' numbers is estimated."""

    resamples: int = Field(10_000, ge=100, le=1_000_000)
    """Bootstrap resamples, and sign flips of a permutation test."""
    equivalence_margin: float | None = Field(None, gt=0)
    """Methods whose means differ by less are equivalent, in units of each metric; tables mark those
    that are so significantly. null: equivalence is not tested."""
