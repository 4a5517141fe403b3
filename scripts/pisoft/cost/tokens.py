"""How many tokens each stage has the model read for one sample."""

from __future__ import annotations

from pisoft.config.evaluation import DrawBudget, RankingSettings
from pisoft.cost.lengths import SampleLengths
from pisoft.faithfulness.repetition import FIRST_DRAWS

# Besides the draws: the clean input, the zero baseline, and the noise floor.
REFERENCE_FORWARDS = 3
# Of a training step: forward, gradients of activations, gradients of weights.
TRAINING_FORWARDS = 3


def draw_bounds(draws: int | DrawBudget) -> tuple[int, int]:
    """Return the fewest and the most draws per retaining probability."""
    return (draws, draws) if isinstance(draws, int) else (FIRST_DRAWS, draws.max)


def soft_tokens(sample: SampleLengths, grid: int, draws: int) -> float:
    """Return the tokens of the soft metrics for one method and protocol, all evaluated steps.

    There are two forwards per draw, for Soft-NS and Soft-NC, with α = 1 and at each of the
    retaining probabilities. Tokens before the first perturbable one are read once.
    """
    forwards = 2 * draws * (grid + 1) + REFERENCE_FORWARDS
    return sample.first + sum(
        forwards * (sample.prompt + step - sample.first) for step in sample.evaluated
    )


def inspection_tokens(sample: SampleLengths, masks: int) -> float:
    """Return the tokens of so many random inputs and the clean one, at every evaluated step."""
    return (1 + masks) * sum(sample.prompt + step for step in sample.evaluated)


def ranking_tokens(sample: SampleLengths, settings: RankingSettings) -> float:
    """Return the tokens of insertion and deletion for one method.

    Tokens before the one in front of the first perturbable token are read once. Steps of both
    curves that keep the same tokens share a forward, and the clean prompt needs none.
    """
    if not sample.perturbable:
        return 0
    steps = min(settings.steps, sample.perturbable)
    forwards = 2 * steps - 1
    prefix = max(0, sample.first - 1)
    removed = sample.perturbable * steps if settings.operator == "remove" else 0  # in all
    return prefix + forwards * (sample.prompt - prefix) - removed


def generation_tokens(sample: SampleLengths) -> float:
    """Return the tokens of an answer: the prompt once, then each generated token but the last."""
    return sample.prompt + sample.output - 1
