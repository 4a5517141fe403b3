"""Occlusion: leave one unit out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pisoft.attribution.masking import MaskingMethod

if TYPE_CHECKING:
    from pisoft.models.model import ExplainedSample


class Occlusion(MaskingMethod):
    """|p_t(X) − p_t(X with x_i replaced by the baseline)|, for every token or unit x_i in scope.

    By default scores are unsigned: with signs, min-max normalisation would put irrelevant tokens in
    the middle of the scale once a single token opposes the target.
    """

    label = "Occlusion"
    reference = "Zeiler and Fergus (2014); Li et al. (2016), Understanding neural networks"

    def masks(self, sample: ExplainedSample, units: int) -> np.ndarray:
        """Return the mask of all units, and those of all but one, (m + 1, m)."""
        return np.concatenate([np.ones((1, units), dtype=bool), ~np.eye(units, dtype=bool)])

    def unit_scores(self, masks: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the drop of the target without each unit, (m, S)."""
        return values[0] - values[1:]

    def forwards(self, prompt_tokens: float, steps: float, scope: range | None = None) -> float:
        """One per token in scope, counting tokens as units, and the clean one."""
        every = range(math.ceil(prompt_tokens))
        return self.single_forwards(prompt_tokens, every if scope is None else scope)
