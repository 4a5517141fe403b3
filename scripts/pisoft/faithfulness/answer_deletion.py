"""Deletion of a generated answer's evidence: how far does the log-probability of the answer fall?

Step k = 0, …, S deletes the round(k·m/S) highest-scoring tokens of the prompt; y_k is the
log-probability of all explained tokens together after it. Three curves follow: the plain one,
(y_0 − y_k) / A, and two scaled ones from FlashTrace's code (`llm_attr_eval.py: faithfulness_test`),
RISE and MAS. Each metric is the trapezoid area under its curve over k/S.

Shapes: m perturbable tokens, S steps, A explained tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

PLAIN, RISE, MAS = "answer_deletion", "rise", "mas"  # curves


@dataclass(frozen=True)
class GeneratedAnswer:
    """The explained tokens of an answer.

    Attributes:
        read: ids of the answer that the model reads: all before the last explained token.
        steps: number of answer tokens before each explained token, increasing, (A,).
        targets: ids of the explained tokens, (A,).
    """

    read: tuple[int, ...]
    steps: tuple[int, ...]
    targets: tuple[int, ...]

    @classmethod
    def from_row(cls, generation: dict[str, Any]) -> GeneratedAnswer:
        """Return the answer of a row of `generations`."""
        steps = tuple(generation["steps"])
        return cls(
            tuple(generation["output_ids"][: steps[-1]]), steps, tuple(generation["target_ids"])
        )


def areas(log_probabilities: np.ndarray, mass: np.ndarray, tokens: int) -> dict[str, float | None]:
    """Return the area under each curve.

    RISE's curve is r_k, the lowest (y_j − y_S) / (y_0 − y_S) of all j ≤ k, at least 0. That of MAS
    is r_k + |r_k − d_k|, at most 1, where d_k is the share of the scores' sum that is left. Both
    are None where the answer is no less likely without all tokens.

    Args:
        log_probabilities: y of the explained tokens together, (S + 1,).
        mass: d, see :func:`mass_left`, (S + 1,).
        tokens: number A of explained tokens.
    """
    fall = log_probabilities[0] - log_probabilities
    plain: dict[str, float | None] = {PLAIN: _area(fall / tokens)}
    if not fall[-1] > 0:
        return plain | {RISE: None, MAS: None}
    response = np.clip(np.minimum.accumulate(1 - fall / fall[-1]), 0, 1)
    penalised = np.minimum(response + np.abs(response - mass), 1)
    return plain | {RISE: _area(response), MAS: _area(penalised)}


def mass_left(raw: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the share of the scores' sum that each step keeps, (S + 1,).

    Scores whose sum is not positive have no such share; a straight line from 1 to 0 stands for it.

    Args:
        raw: scores, (m,).
        kept: which tokens each step keeps, first all and last none, (S + 1, m).
    """
    total = raw.sum()
    return kept @ raw / total if total > 0 else np.linspace(1, 0, len(kept))


def _area(curve: np.ndarray) -> float:
    return float(np.trapezoid(curve, dx=1 / (len(curve) - 1)))
