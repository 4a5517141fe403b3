"""Masks of soft perturbations (paper Eq. 1), and the random numbers they are drawn with.

Every mask keeps a token with the probability that is its score. Bernoulli masks keep it where its
uniform is below the score, each token on its own; :class:`CountedMasks` keep a fixed number of
tokens. Masks of Soft-NC are the exact complement of those of Soft-NS. Random numbers depend on
their key alone, (seed, sample, step, π index, draw): they are the same for every method and both
protocols, and do not change with batch size, order, shard, resume or device.

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
        """Return what the mask of one draw keeps at one retaining probability, (m, d) bool.

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
        """Return what a mask keeps; see :class:`Masks`."""
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
    """Uniforms that are spread evenly over the draws, and over the retaining probabilities.

    For every token on its own, the K uniforms at one π are a Latin hypercube sample, one in each
    K-th of [0, 1), and so are the P uniforms of one draw: a regular grid with a random shift and
    random orders. Tokens are independent and each uniform is uniform, so every single mask has the
    law of independent ones; means over draws, and areas under the curve over π, vary less. The
    grid has P retaining probabilities, and there may be K draws.
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

    The tokens are put in a random order, in which their scores are intervals side by side, from 0
    to Σ s. A token is kept where one of the points u, u + 1, u + 2, … falls into its interval, with
    u uniform in [0, 1): with the probability that is its score, as no interval is longer than 1. A
    whole Σ s, as calibrated scores have, is the number of tokens that every mask keeps. Else, as
    with the original metrics, it is the floor or the ceiling of Σ s. Bits of different tokens are
    not independent.
    """

    def __init__(self, seed: int, sample_id: str, step: int, tokens: int) -> None:
        self._key = (seed, "count", sample_id, step)
        self._tokens = tokens

    def kept(self, pi_index: PiIndex, draw: int, scores: np.ndarray) -> np.ndarray:
        """Return what a mask keeps, (m, 1); see :class:`Masks`."""
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
    """Return the means that a step's scores are calibrated to, one for every π, (P,).

    They are π itself, but of `count`: there every mask keeps round(π·m) tokens, halves rounded up,
    at least 1 and at most m − 1, so the mean is that number over m. A single token cannot be both
    kept and removed: it is kept with probability π.
    """
    if sampler != "count" or tokens == 1:
        return pi
    halves_up = np.floor(np.round(pi * tokens, DECIMALS) + 0.5)
    return np.clip(halves_up, 1, tokens - 1) / tokens


def measured_pi(
    grid_size: int, count: int | None, seed: int, indices: tuple[int, int]
) -> np.ndarray:
    """Return which retaining probabilities of the grid are measured of a step, rising indices.

    They are a systematic sample of the grid, whose start moves from step to step by irrational
    parts of a stride: each π is measured of nearly the same share of steps, also of the first few.
    The seed alone decides over the first start, so the sample is the same for all methods.

    Args:
        grid_size: number of retaining probabilities, P.
        count: how many of them are measured; None: all.
        indices: of the sample in its dataset, and of the step among those of its sample.
    """
    if count is None:
        return np.arange(grid_size)
    first = keyed_generator(seed, "measured pi").random()
    start = (first + indices[0] * GOLDEN_RATIO + indices[1] * SILVER_RATIO) % 1.0
    return systematic_pi(grid_size, count, start)


def systematic_pi(grid_size: int, count: int, start: float) -> np.ndarray:
    """Return the systematic sample of so many of P retaining probabilities with a start in [0, 1).

    It changes with the start at multiples of 1/P alone.
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

    Those of `count` are of whole tokens, d = 1.
    """
    if sampler == "count":
        return CountedMasks(seed, sample_id, step, shape[0])
    if sampler == "latin":
        return LatinUniforms(seed, sample_id, step, shape, grid_size, draws)
    return IndependentUniforms(seed, sample_id, step, shape)


def kept_tokens(drawn: Masks, probabilities: np.ndarray, row_index: int, draw: int) -> np.ndarray:
    """Return the Soft-NS mask of one draw, (m, d); the Soft-NC mask is its complement.

    Probabilities of keeping a token are (1 + P, m): row 0 for the original metrics, row 1 + i for
    the π with index i.
    """
    pi_index: PiIndex = ORIGINAL if row_index == 0 else row_index - 1
    return drawn.kept(pi_index, draw, probabilities[row_index])
