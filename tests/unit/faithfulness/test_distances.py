"""Distances of distributions against SciPy and closed forms."""

import numpy as np
import torch
from scipy.spatial.distance import euclidean
from scipy.special import softmax

from pisoft.faithfulness.distances import hellinger, root_probabilities, total_variation


def test_distances_equal_scipys_on_random_distributions():
    logits = np.random.default_rng(0).normal(scale=4, size=(2, 50, 333))
    p, q = softmax(logits, axis=-1)
    expected = [euclidean(np.sqrt(a), np.sqrt(b)) / np.sqrt(2) for a, b in zip(p, q, strict=True)]
    roots = root_probabilities(torch.from_numpy(logits))
    np.testing.assert_allclose(hellinger(roots[0], roots[1]), expected, rtol=1e-12)
    half = np.abs(p - q).sum(axis=-1) / 2
    np.testing.assert_allclose(total_variation(roots[0], roots[1]), half, rtol=1e-12)


def test_distance_is_zero_for_equal_and_one_for_disjoint_distributions():
    logits = torch.randn(7, 100)
    roots = root_probabilities(logits)
    apart = root_probabilities(torch.tensor([[300.0, 0.0], [0.0, 300.0]]))
    for distance in (hellinger, total_variation):
        assert (distance(roots, roots) == 0).all()
        assert distance(apart[0], apart[1]) == 1


def test_small_distances_are_precise_in_float32():
    """1 - Σ√(pq) in float32 would be 0 or 2e-4 here."""
    logits = torch.randn(1, 5000, dtype=torch.float64)
    near = logits + 1e-4 * torch.randn(1, 5000, dtype=torch.float64)
    exact = hellinger(root_probabilities(logits), root_probabilities(near))
    single = hellinger(root_probabilities(logits.float()), root_probabilities(near.float()))
    assert exact < 1e-4
    torch.testing.assert_close(single.double(), exact, rtol=2e-2, atol=0)
