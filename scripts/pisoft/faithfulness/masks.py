"""Bernoulli masks of soft perturbations (paper Eq. 1), and the uniforms they are drawn with.

A mask keeps a token where its uniform is below its score. Masks of Soft-NC are the exact complement
of those of Soft-NS. Uniforms depend on their key alone, (seed, sample, step, π index, draw): they
are the same for every method and both protocols, and do not change with batch size, order, shard,
resume or device.

Shapes: m perturbable tokens; d embedding width, or 1 where one bit decides over a whole token.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pisoft.config.base import Sampler
from pisoft.keyed import keyed_generator

ORIGINAL = "original"  # stands for the π index of the original metrics, α = 1
PiIndex = int | str


class Uniforms(Protocol):
    """The uniforms in [0, 1) of one sample and step."""

    def of_draw(self, pi_index: PiIndex, draw: int) -> np.ndarray:
        """Return the uniforms of one draw at one retaining probability, (m, d), float64."""


class IndependentUniforms:
    """Uniforms that are independent over tokens, retaining probabilities and draws (paper).

    Args:
        seed, sample_id, step: the key.
        shape: (m, d).
    """

    def __init__(self, seed: int, sample_id: str, step: int, shape: tuple[int, int]) -> None:
        self._key = (seed, "mask", sample_id, step)
        self._shape = shape

    def of_draw(self, pi_index: PiIndex, draw: int) -> np.ndarray:
        """Return the uniforms of one draw; they do not depend on how many draws there are."""
        return keyed_generator(*self._key, pi_index, draw).random(self._shape)


class LatinUniforms:
    """Uniforms that are spread evenly over the draws, and over the retaining probabilities.

    For every token on its own, the K uniforms at one π are a Latin hypercube sample, one in each
    K-th of [0, 1), and so are the P uniforms of one draw: a regular grid with a random shift and
    random orders. Tokens are independent and each uniform is uniform, so every single mask has the
    law of independent ones; means over draws, and areas under the curve over π, vary less.

    Args:
        seed, sample_id, step: the key.
        shape: (m, d).
        grid_size: number of retaining probabilities, P.
        draws: number of draws, K, that there may be.
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

    def of_draw(self, pi_index: PiIndex, draw: int) -> np.ndarray:
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
    places = np.arange(count, dtype=np.float32)[:, None, None]
    return generator.permuted(np.broadcast_to(places, (count, *shape)), axis=0)


def uniforms(
    sampler: Sampler,
    seed: int,
    sample_id: str,
    step: int,
    shape: tuple[int, int],
    grid_size: int,
    draws: int,
) -> Uniforms:
    """Return the uniforms of a sampler, `iid` or `latin`; see the two classes."""
    if sampler == "latin":
        return LatinUniforms(seed, sample_id, step, shape, grid_size, draws)
    return IndependentUniforms(seed, sample_id, step, shape)


def kept_tokens(drawn: Uniforms, probabilities: np.ndarray, line: int, draw: int) -> np.ndarray:
    """Return the mask of Soft-NS at one draw; that of Soft-NC is its complement.

    Args:
        drawn: the uniforms of the sample and step.
        probabilities: of keeping a token, for the original metrics and for every π, (P + 1, m).
        line: which of them, 0 for the original metrics.
        draw: its number.

    Returns:
        Whether a token, or an element of its embedding, is kept, (m, d).
    """
    index: PiIndex = ORIGINAL if line == 0 else line - 1
    return drawn.of_draw(index, draw) < probabilities[line][:, None]
