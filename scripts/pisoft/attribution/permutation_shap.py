"""Shapley values by permutations."""

from __future__ import annotations

import numpy as np

from pisoft.attribution.masking import SamplingMethod


class PermutationShap(SamplingMethod):
    """Mean change of the target as units join in a random order.

    A permutation takes m + 1 masked prompts, from the empty to the whole prompt, which all
    permutations share. `forwards` limits the number of permutations; every second one reverses its
    predecessor. The signed scores of units always sum to the difference between the whole and the
    empty prompt.
    """

    label = "PermutationSHAP"
    reference = "Štrumbelj and Kononenko (2014); Mitchell et al. (2022), Sampling permutations"

    def sampled(self, generator: np.random.Generator, units: int, forwards: int) -> np.ndarray:
        """Return the coalitions of all permutations, from empty to whole, (P (m + 1), m)."""
        permutations = (forwards - 2) // (units - 1) if units > 1 else 1
        ranks = np.stack([generator.permutation(units) for _ in range(-(-permutations // 2))])
        ranks = np.stack([ranks, units - 1 - ranks], axis=1).reshape(-1, units)[:permutations]
        return (ranks[:, None] < np.arange(units + 1)[:, None]).reshape(-1, units)

    def unit_scores(self, masks: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return each unit's mean change over the permutations, (m, S)."""
        units = masks.shape[1]
        coalitions = masks.reshape(-1, units + 1, units)  # (P, m + 1, m)
        joins = np.diff(coalitions.astype(float), axis=1)  # 1 where a unit joins
        changes = np.diff(values.reshape(-1, units + 1, values.shape[1]), axis=1)  # (P, m, S)
        return np.einsum("pku,pks->us", joins, changes) / len(coalitions)
