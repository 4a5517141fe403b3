"""Masks: the law of every bit, and keys that nothing else influences."""

import numpy as np
from scipy.stats import binomtest

from pisoft.faithfulness.masks import ORIGINAL, keyed_uniforms, retained


def test_each_bit_is_kept_with_its_score():
    scores = np.array([0.0, 0.02, 0.3, 0.5, 0.9, 1.0])
    draws = 4000
    kept = retained(keyed_uniforms(1, "a", 0, 3, draws, len(scores)), scores).sum(axis=0)
    assert kept[0] == 0
    assert kept[-1] == draws
    for count, score in zip(kept[1:-1], scores[1:-1], strict=True):
        assert binomtest(int(count), draws, score).pvalue > 1e-4


def test_bits_of_tokens_and_draws_are_uncorrelated():
    uniforms = keyed_uniforms(1, "a", 0, 0, 3000, 4)
    off_diagonal = np.corrcoef(uniforms.T)[np.triu_indices(4, 1)]
    assert np.abs(off_diagonal).max() < 0.08
    assert abs(np.corrcoef(uniforms[:-1, 0], uniforms[1:, 0])[0, 1]) < 0.08


def test_more_draws_keep_the_earlier_ones():
    np.testing.assert_array_equal(
        keyed_uniforms(1, "a", 0, 2, 4, 9), keyed_uniforms(1, "a", 0, 2, 15, 9)[:4]
    )


def test_every_part_of_the_key_matters():
    reference = keyed_uniforms(1, "a", 0, 2, 3, 9)
    for key in [
        (2, "a", 0, 2),
        (1, "b", 0, 2),
        (1, "a", 5, 2),
        (1, "a", 0, 3),
        (1, "a", 0, ORIGINAL),
    ]:
        assert not np.isclose(keyed_uniforms(*key, 3, 9), reference).any()


def test_numbers_are_fixed_for_all_time():
    """Published results depend on these bits; a change here invalidates stored results."""
    np.testing.assert_allclose(
        keyed_uniforms(1, "sample", 0, 0, 2, 2), EXPECTED, rtol=0, atol=1e-15
    )


EXPECTED = np.array(
    [[0.8458757586996538, 0.5598092023081493], [0.9441541041212055, 0.5407091681599978]]
)
