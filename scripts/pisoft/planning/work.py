"""What the stages ask of a model for one sample: forwards, the tokens they read, and FLOPs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pisoft.config.evaluation import FIRST_DRAWS, DrawBudget, RankingSettings
from pisoft.config.models import ModelShape
from pisoft.planning.flops import TRAINING_FORWARDS, forward_flops, next_token_flops
from pisoft.planning.lengths import Lengths, SampleLengths

# Besides the draws: the clean input, the zero baseline, and the noise floor.
REFERENCE_FORWARDS = 3


@dataclass(frozen=True)
class Work:
    """What forward passes amount to; tokens are those that they read, one by one."""

    forwards: float = 0
    tokens: float = 0
    flops: float = 0

    def __add__(self, other: Work) -> Work:
        """Return both together."""
        return Work(
            self.forwards + other.forwards, self.tokens + other.tokens, self.flops + other.flops
        )

    def __mul__(self, times: float) -> Work:
        """Return the same work so many times."""
        return Work(self.forwards * times, self.tokens * times, self.flops * times)


NO_WORK = Work()


def draw_bounds(draws: int | DrawBudget) -> tuple[int, int]:
    """Return the fewest and the most draws per retaining probability."""
    return (draws, draws) if isinstance(draws, int) else (FIRST_DRAWS, draws.max)


def soft_forwards(grid: int, draws: int) -> int:
    """Return forwards of the soft metrics for one sample, step, method and protocol.

    Two per draw, for Soft-NS and Soft-NC, with α = 1 and at each of the retaining probabilities.
    """
    return 2 * draws * (grid + 1) + REFERENCE_FORWARDS


def soft_work(shape: ModelShape, sample: SampleLengths, grid: int, draws: int) -> Work:
    """Return the work of the soft metrics for one sample, method and protocol, all its steps.

    Tokens before the first perturbable one are read once; forwards read those behind.
    """
    forwards = soft_forwards(grid, draws)
    total = Work(flops=forward_flops(shape, sample.first))
    for step in sample.steps:
        tokens = sample.prompt + step - sample.first
        flops = next_token_flops(shape, tokens, prefix=sample.first)
        total += Work(1, tokens, flops) * forwards
    return total


def inspection_work(shape: ModelShape, sample: SampleLengths, masks: int) -> Work:
    """Return the work of looking at so many random inputs and the clean one, at every step."""
    total = NO_WORK
    for step in sample.steps:
        tokens = sample.prompt + step
        total += Work(1, tokens, next_token_flops(shape, tokens)) * (1 + masks)
    return total


def ranking_work(shape: ModelShape, sample: SampleLengths, settings: RankingSettings) -> Work:
    """Return the work of insertion and deletion for one sample and method.

    Tokens before the one in front of the first perturbable token are read once. Steps of both
    curves that keep the same tokens share a forward, and the clean prompt needs none.
    """
    if not sample.perturbable:
        return NO_WORK
    steps = min(settings.steps, sample.perturbable)
    forwards = 2 * steps - 1
    prefix = max(0, sample.first - 1)
    removed = sample.perturbable * steps / forwards if settings.operator == "remove" else 0
    tokens = sample.prompt - prefix - removed  # on average
    one = Work(1, tokens, next_token_flops(shape, tokens, prefix=prefix))
    return Work(flops=forward_flops(shape, prefix)) + one * forwards


def generation_work(shape: ModelShape, sample: SampleLengths) -> Work:
    """Return the work of an answer: the prompt once, then each generated token but the last."""
    total = Work(1, sample.prompt, next_token_flops(shape, sample.prompt))
    for read in range(sample.prompt, sample.prompt + sample.output - 1):
        total += Work(1, 1, forward_flops(shape, 1, prefix=read, positions=1))
    return total


def attribution_work(shape: ModelShape, sample: SampleLengths, forwards: float) -> Work:
    """Return the work of an attribution, priced in forwards over all tokens read."""
    one = next_token_flops(shape, sample.read, positions=len(sample.steps))
    return Work(1, sample.read, one) * forwards


def training_work(shape: ModelShape, tokens: float, sequences: int) -> Work:
    """Return the work of training on so many sequences; a backward counts as two forwards."""
    one = forward_flops(shape, tokens, positions=1)
    return Work(1, tokens, one) * (TRAINING_FORWARDS * sequences)


def total_work(lengths: Lengths, of_sample: Callable[[SampleLengths], Work]) -> Work:
    """Return the work of all samples."""
    total = NO_WORK
    for sample in lengths.samples:
        total += of_sample(sample) * sample.count
    return total
