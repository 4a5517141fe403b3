"""Bernoulli masks of soft perturbations (paper Eq. 1)."""

from __future__ import annotations

import numpy as np

from pisoft.keyed import keyed_generator

ORIGINAL = "original"  # stands for the π index of the original metrics, α = 1


def keyed_uniforms(
    seed: int, sample_id: str, step: int, pi_index: int | str, draws: int, tokens: int
) -> np.ndarray:
    """Return uniforms in [0, 1), (draws, tokens), float64.

    Each draw has its own key (seed, sample_id, step, π index, draw): the numbers are the same for
    every method and both protocols, and do not change with batch size, order, shard, resume,
    device or the number of draws.
    """
    return np.stack(
        [
            keyed_generator(seed, "mask", sample_id, step, pi_index, draw).random(tokens)
            for draw in range(draws)
        ]
    )


def retained(uniforms: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return masks e ~ Bernoulli(s), true where a token is kept, (draws, tokens).

    These are the masks of Soft-NS; those of Soft-NC are their exact complement.
    """
    return uniforms < scores
