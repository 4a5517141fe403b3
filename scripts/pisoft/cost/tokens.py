"""The number of tokens that the model reads for one sample at each stage."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

from pisoft.attribution.base import AttributionMethod, ScopedMethod
from pisoft.config.evaluation import DrawBudget, RankingSettings
from pisoft.cost.lengths import SampleLengths
from pisoft.faithfulness.repetition import FIRST_DRAWS

# Besides the draws: the clean input, the zero baseline, and the noise floor.
REFERENCE_FORWARDS = 3
# Of a training step: forward, gradients of activations, gradients of weights.
TRAINING_FORWARDS = 3
MASKED_CONTEXT = 512  # tokens that RoBERTa and its kin read at once


def draw_bounds(draws: int | DrawBudget) -> tuple[int, int]:
    """Return the fewest and the most draws per retaining probability."""
    return (draws, draws) if isinstance(draws, int) else (FIRST_DRAWS, draws.max)


@dataclass(frozen=True)
class Work:
    """The cost of attributions; supports `work + work` and `number * work`."""

    tokens: float = 0  # that the explained model reads
    float32: float = 0  # of these, those in float32 whatever the model's type
    elements: float = 0  # numbers per weight, besides matrix products
    masked: float = 0  # tokens that the masked model reads

    def __add__(self, other: Work) -> Work:
        return Work(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def __rmul__(self, factor: float) -> Work:
        return Work(*(factor * number for number in astuple(self)))


def attribution_work(sample: SampleLengths, method: AttributionMethod) -> Work:
    """Return the cost of attributing one sample."""
    steps = len(sample.steps)
    if isinstance(method, ScopedMethod):
        scope = range(sample.first, sample.first + sample.perturbable)
        forwards = method.forwards(sample.read, steps, scope)
    else:
        forwards = method.forwards(sample.prompt, steps)
    return Work(
        sample.read * forwards,
        sample.read * method.float32_forwards(sample.prompt, steps),
        method.elements(sample.read),
        proposal_tokens(sample) if method.needs_masked_model else 0,
    )


def proposal_tokens(sample: SampleLengths) -> float:
    """Return the tokens of a masked model: the prompt, cut to fit, per perturbable token."""
    return sample.perturbable * min(sample.prompt, MASKED_CONTEXT)


def repetition_work(sample: SampleLengths, method: AttributionMethod) -> Work:
    """Return the cost of attributing all steps of one sample separately."""
    steps = (attribution_work(replace(sample, steps=(step,)), method) for step in sample.steps)
    return sum(steps, Work())


def soft_tokens(sample: SampleLengths, grid: int, draws: int) -> float:
    """Return the tokens of the soft metrics for one method and protocol over all evaluated steps.

    Each draw takes two forwards, for Soft-NS and Soft-NC, with α = 1 and at each retaining
    probability. Tokens before the first perturbable one are read once. Equal masks, which are also
    evaluated once, are not accounted for; they only occur on short inputs.
    """
    forwards = 2 * draws * (grid + 1) + REFERENCE_FORWARDS
    return sample.first + sum(
        forwards * (sample.prompt + step - sample.first) for step in sample.evaluated
    )


def inspection_tokens(sample: SampleLengths, masks: int) -> float:
    """Return the tokens of randomly ablated inputs and the clean one over all evaluated steps."""
    return (1 + masks) * sum(sample.prompt + step for step in sample.evaluated)


def ranking_tokens(sample: SampleLengths, settings: RankingSettings, has_label: bool) -> float:
    """Return the tokens of insertion, deletion and counterfactuals for one method.

    The prefix before the first perturbable token, less its last token, is read once. Steps of both
    curves that keep the same tokens share a forward, and the clean prompt needs none. Generated
    answers have only the deletion curve, and are read after every prompt, the clean one included.
    """
    if not sample.perturbable:
        return 0
    steps = min(settings.steps, sample.perturbable)
    forwards, read = (3 if settings.counterfactuals else 2) * steps - 1, sample.prompt
    removed = sample.perturbable * steps  # in all
    if not has_label:
        forwards, read = steps + 1, sample.read
        removed = sum(round(k * sample.perturbable / steps) for k in range(steps + 1))
    prefix = max(0, sample.first - 1)
    return prefix + forwards * (read - prefix) - (removed if settings.operator == "remove" else 0)


def generation_tokens(sample: SampleLengths) -> float:
    """Return the tokens read during generation: the prompt and all output tokens but the last."""
    return sample.prompt + sample.output - 1
