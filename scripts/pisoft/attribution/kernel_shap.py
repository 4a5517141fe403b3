"""Shapley values by weighted least squares."""

from __future__ import annotations

import math

import numpy as np

from pisoft.attribution.masking import SamplingMethod, all_masks


class KernelShap(SamplingMethod):
    """Weights of a linear model of the target, equal to Shapley values when fitted to all masks.

    The whole and the empty prompt are fitted exactly. All coalitions of size s together have weight
    (m − 1)/(s (m − s)). Coalitions of one unit and of all but one come first, and are the only ones
    by default. Further `forwards` go to random coalitions of other sizes, each with its complement.
    With all 2^m masks, scores are the exact Shapley values.
    """

    seeded = False  # by default nothing is left to chance

    label = "KernelSHAP"
    reference = "Lundberg and Lee (2017), A unified approach to interpreting model predictions"

    def fewest(self, units: int) -> int:
        """The whole and the empty prompt, and coalitions of one and of all but one unit."""
        return min(2 * (units + 1), 2**units)

    def sampled(self, generator: np.random.Generator, units: int, forwards: int) -> np.ndarray:
        """Return the empty, the whole and the other coalitions, (N, m)."""
        if forwards >= 2**units:
            return all_masks(units)
        one = np.eye(units, dtype=bool)
        ends = np.array([[False], [True]]).repeat(units, axis=1)
        inner = np.arange(2, units - 1)
        chances = 1 / (inner * (units - inner))
        pairs = (forwards - 2 - 2 * units) // 2
        sizes = generator.choice(inner, size=pairs, p=chances / chances.sum())
        ranks = generator.permuted(np.tile(np.arange(units), (pairs, 1)), axis=1)
        some = ranks < sizes[:, None]
        return np.concatenate([ends, one, ~one, some, ~some])

    def forwards(self, prompt_tokens: float, steps: float, scope: range | None = None) -> float:
        """One per mask, but single units and their complements share the tokens before them."""
        scope = range(math.ceil(prompt_tokens)) if scope is None else scope
        drawn = max(0, self.number_of_forwards(len(scope)) - 2 * (len(scope) + 1))
        shared = 2 * self.single_forwards(prompt_tokens, scope)
        return shared + drawn * (1 - scope.start / prompt_tokens)

    def unit_scores(self, masks: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return weights that sum to the value of the whole prompt less the empty one's, (m, S)."""
        units, sizes = masks.shape[1], masks.sum(axis=1)
        empty, whole = (values[np.flatnonzero(sizes == size)[0]] for size in (0, units))
        equal = (whole - empty) / units
        if units == 1:
            return equal[None]
        inner = (sizes > 0) & (sizes < units)
        masks, values, sizes = masks[inner], values[inner], sizes[inner]
        size_counts = np.bincount(sizes)[sizes]
        root = np.sqrt(1 / (sizes * (units - sizes) * size_counts))[:, None]
        # Less their mean, the rows leave only weights that sum to 0, which `equal` completes.
        rows = masks - sizes[:, None] / units
        rest = values - empty - sizes[:, None] * equal
        return equal + np.linalg.lstsq(root * rows, root * rest, rcond=None)[0]
