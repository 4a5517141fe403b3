"""Masks of soft perturbations (paper Eq. 1), and the random numbers they are drawn with.

A mask keeps each token with a probability equal to its score. Bernoulli masks do so independently,
where a token's uniform is below its score; :class:`CountedMasks` keep a fixed number of tokens.
Soft-NC masks are the complements of Soft-NS masks. Random numbers depend only on their key (seed,
sample, step, π index, draw): they are the same for every method and both protocols, whatever the
batch size, order, shard, resume or device.

Shapes: m perturbable tokens; d embedding width, or 1 where one bit decides over a whole token. A
shape is (m, d).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from pisoft.config.base import Sampler
from pisoft.seeds import keyed_generator

ORIGINAL = "original"  # stands for the π index of the original metrics, α = 1
PiIndex = int | str


DECIMALS = 9  # π·m is rounded to before halves are, so that 0.29 · 50 is 14.5
GOLDEN_RATIO, SILVER_RATIO = (np.sqrt(5) - 1) / 2, np.sqrt(2) - 1  # fractional parts
WHOLE = 1e-9  # of a mean over tokens: a sum so near to a whole number is that number


class Masks(Protocol):
    """The masks of one sample and step."""

    def kept(self, pi_index: PiIndex, draw: int, scores: np.ndarray) -> np.ndarray:
        """Return the mask of one draw at one retaining probability, (m, d); True: kept.

        Args:
            pi_index: index into the grid of retaining probabilities, or :data:`ORIGINAL`.
            scores: probability of keeping each token, (m,).
        """


class Uniforms(ABC):
    """Bernoulli masks, by uniforms in [0, 1)."""

    @abstractmethod
    def uniforms(self, pi_index: PiIndex, draw: int) -> np.ndarray:
        """Return the uniforms of one draw at one retaining probability, (m, d), float64."""

    def kept(self, pi_index: PiIndex, draw: int, scores: np.ndarray) -> np.ndarray:
        """Return the mask of one draw; see :class:`Masks`."""
        return self.uniforms(pi_index, draw) < scores[:, None]


class IndependentUniforms(Uniforms):
    """Uniforms that are independent over tokens, retaining probabilities and draws (paper)."""

    def __init__(self, seed: int, sample_id: str, step: int, shape: tuple[int, int]) -> None:
        self._key = (seed, "mask", sample_id, step)
        self._shape = shape

    def uniforms(self, pi_index: PiIndex, draw: int) -> np.ndarray:
        """Return the uniforms of one draw; they do not depend on how many draws there are."""
        return keyed_generator(*self._key, pi_index, draw).random(self._shape)


class LatinUniforms(Uniforms):
    """Uniforms stratified over the K draws and over the P retaining probabilities.

    For each token, the K uniforms at one π are a Latin hypercube sample, one in each K-th of
    [0, 1). So are the P uniforms of one draw: a regular grid, randomly shifted and ordered. Tokens
    are independent and each uniform is uniform, so a single mask has the same distribution as an
    independent one, but means over draws and areas over π have less variance.
    """

    def __init__(
        self,
        seed: int,
        sample_id: str,
        step: int,
        shape: tuple[int, int],
        grid_size: int,
        draws: int,
    ) -> None:
        key = (seed, "latin", sample_id, step)
        self._curve = _ShiftedGrid(keyed_generator(*key), shape, grid_size, draws)
        self._original = _ShiftedGrid(keyed_generator(*key, ORIGINAL), shape, 1, draws)

    def uniforms(self, pi_index: PiIndex, draw: int) -> np.ndarray:
        """Return the uniforms of one draw; the original metrics have a sample of their own."""
        if isinstance(pi_index, str):
            return self._original.at(0, draw)
        return self._curve.at(pi_index, draw)


class _ShiftedGrid:
    """Two-way stratified uniforms for every token, without correlation between tokens."""

    def __init__(
        self, generator: np.random.Generator, shape: tuple[int, int], rows: int, columns: int
    ) -> None:
        self._shift = generator.random(shape)
        self._rows = _orders(generator, rows, shape) / rows  # (rows, m, d)
        self._columns = _orders(generator, columns, shape) / columns

    def at(self, row: int, column: int) -> np.ndarray:
        return (self._shift + self._rows[row] + self._columns[column]) % 1.0


def _orders(generator: np.random.Generator, count: int, shape: tuple[int, int]) -> np.ndarray:
    """Return a random order of 0 … count - 1 for every token, (count, m, d)."""
    ranks = np.arange(count, dtype=np.float32)[:, None, None]
    return generator.permuted(np.broadcast_to(ranks, (count, *shape)), axis=0)


class CountedMasks:
    """Masks that keep a fixed number of tokens: systematic sampling (Madow, 1949).

    The scores of the tokens, in random order, form adjacent intervals from 0 to Σ s. A token is
    kept if one of the points u, u + 1, u + 2, …, with u uniform in [0, 1), falls into its interval;
    as no interval is longer than 1, the probability is its score. If Σ s is whole, as for
    calibrated scores, every mask keeps Σ s tokens; otherwise, as for the original metrics, ⌊Σ s⌋ or
    ⌈Σ s⌉. Tokens are not kept independently of each other.
    """

    def __init__(self, seed: int, sample_id: str, step: int, tokens: int) -> None:
        self._key = (seed, "count", sample_id, step)
        self._tokens = tokens

    def kept(self, pi_index: PiIndex, draw: int, scores: np.ndarray) -> np.ndarray:
        """Return the mask of one draw, (m, 1); see :class:`Masks`."""
        generator = keyed_generator(*self._key, pi_index, draw)
        order, shift = generator.permutation(self._tokens), generator.random()
        ends = np.cumsum(scores[order])
        count = _points(float(ends[-1]), shift, self._tokens)
        numbers = np.arange(count)
        positions = np.searchsorted(ends, shift + numbers, side="right")
        # In exact numbers, they increase and are inside. Rounding must not change their number.
        after = np.maximum.accumulate(positions - numbers)
        positions = np.minimum(after, self._tokens - count) + numbers
        kept = np.zeros((self._tokens, 1), dtype=bool)
        kept[order[positions]] = True
        return kept


def _points(total: float, shift: float, tokens: int) -> int:
    """Return how many of the points shift, shift + 1, … are below the sum of the scores."""
    whole = round(total)
    near = abs(total - whole) <= WHOLE * tokens
    return whole if near else int(np.ceil(total - shift))


def calibrated_means(sampler: Sampler, pi: np.ndarray, tokens: int) -> np.ndarray:
    """Return the mean that a step's scores are calibrated to for each π, (P,).

    It is π, except with sampler `count`: there a mask keeps round(π·m) tokens, halves rounded up,
    at least 1 and at most m − 1, so the mean is that number over m. A single token is kept with
    probability π.
    """
    if sampler != "count" or tokens == 1:
        return pi
    halves_up = np.floor(np.round(pi * tokens, DECIMALS) + 0.5)
    return np.clip(halves_up, 1, tokens - 1) / tokens


def measured_pi(
    grid_size: int, count: int | None, seed: int, indices: tuple[int, int]
) -> np.ndarray:
    """Return the increasing grid indices of the retaining probabilities measured at a step.

    They are a systematic sample of the grid. Its start moves by an irrational part of the stride
    from step to step, so every π is measured at nearly the same share of steps, even of the first
    few. The first start depends only on the seed, so the sample is the same for all methods.

    Args:
        grid_size: number of retaining probabilities, P.
        count: number of them to measure; None: all.
        indices: index of the sample in its dataset, and of the step in its sample.
    """
    if count is None:
        return np.arange(grid_size)
    first = keyed_generator(seed, "measured pi").random()
    start = (first + indices[0] * GOLDEN_RATIO + indices[1] * SILVER_RATIO) % 1.0
    return systematic_pi(grid_size, count, start)


def systematic_pi(grid_size: int, count: int, start: float) -> np.ndarray:
    """Return the systematic sample of `count` of P retaining probabilities from a start in [0, 1).

    It changes only where the start crosses a multiple of 1/P.
    """
    chosen = np.floor((np.arange(count) + start) * grid_size / count).astype(int)
    return np.minimum(chosen, grid_size - 1)


def masks_of(
    sampler: Sampler,
    seed: int,
    sample_id: str,
    step: int,
    shape: tuple[int, int],
    grid_size: int,
    draws: int,
) -> Masks:
    """Return the masks of a sampler, `iid`, `latin` or `count`; see the three classes.

    Masks of `count` have d = 1.
    """
    if sampler == "count":
        return CountedMasks(seed, sample_id, step, shape[0])
    if sampler == "latin":
        return LatinUniforms(seed, sample_id, step, shape, grid_size, draws)
    return IndependentUniforms(seed, sample_id, step, shape)


def kept_tokens(drawn: Masks, probabilities: np.ndarray, row_index: int, draw: int) -> np.ndarray:
    """Return the Soft-NS mask of one draw, (m, d); the Soft-NC mask is its complement.

    Retaining probabilities of tokens are (1 + P, m): row 0 for the original metrics, row 1 + i for
    the π with index i.
    """
    pi_index: PiIndex = ORIGINAL if row_index == 0 else row_index - 1
    return drawn.kept(pi_index, draw, probabilities[row_index])
