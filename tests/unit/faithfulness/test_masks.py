"""Masks: the law of every bit, the spread of Latin ones, and keys that nothing else influences."""

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from pisoft.faithfulness.masks import ORIGINAL, uniforms

GRID, DRAWS = 5, 4


def drawn(sampler="iid", key=(1, "a", 0), index=0, tokens=4, width=1, draws=DRAWS, grid=GRID):
    """Return the uniforms of all draws at one π, (draws, tokens) or (draws, tokens, width)."""
    source = uniforms(sampler, *key, (tokens, width), grid, draws)
    stacked = np.stack([source.of_draw(index, draw) for draw in range(draws)])
    return stacked[..., 0] if width == 1 else stacked


def over_samples(sampler, tokens, count, index=2):
    """Return the first two draws of many samples, (2, samples, tokens)."""
    found = [drawn(sampler, (1, str(k), 0), index, tokens) for k in range(count)]
    return np.stack(found)[:, :2].transpose(1, 0, 2)


@pytest.mark.parametrize("sampler", ["iid", "latin"])
def test_each_bit_is_kept_with_its_score(sampler):
    scores = np.array([0.0, 0.02, 0.3, 0.5, 0.9, 1.0])
    count = 3000
    for of_draw in over_samples(sampler, len(scores), count):
        kept = (of_draw < scores).sum(axis=0)
        assert kept[0] == 0
        assert kept[-1] == count
        for found, score in zip(kept[1:-1], scores[1:-1], strict=True):
            assert binomtest(int(found), count, score).pvalue > 1e-4
        assert kstest(of_draw[:, 2], "uniform").pvalue > 1e-4


@pytest.mark.parametrize("sampler", ["iid", "latin"])
def test_bits_of_the_tokens_of_a_draw_are_uncorrelated(sampler):
    for of_draw in over_samples(sampler, 4, 3000):
        off_diagonal = np.corrcoef(of_draw.T)[np.triu_indices(4, 1)]
        assert np.abs(off_diagonal).max() < 0.08


def test_independent_draws_are_uncorrelated():
    found = drawn(draws=3000)
    assert abs(np.corrcoef(found[:-1, 0], found[1:, 0])[0, 1]) < 0.08


@pytest.mark.parametrize("index", [0, 4, ORIGINAL])
@pytest.mark.parametrize("width", [1, 3])
def test_latin_draws_fill_every_stratum_once(index, width):
    found = drawn("latin", index=index, tokens=50, width=width).reshape(DRAWS, -1)
    strata = np.floor(found * DRAWS).astype(int)
    np.testing.assert_array_equal(np.sort(strata, axis=0), np.arange(DRAWS)[:, None] + 0 * strata)
    assert len(np.unique(strata.argsort(axis=0), axis=1).T) > 1, "each token has its own order"


def test_latin_retaining_probabilities_of_a_draw_fill_every_stratum_once():
    source = uniforms("latin", 1, "a", 0, (50, 1), GRID, DRAWS)
    found = np.stack([source.of_draw(index, 2)[:, 0] for index in range(GRID)])
    strata = np.floor(found * GRID).astype(int)
    np.testing.assert_array_equal(np.sort(strata, axis=0), np.arange(GRID)[:, None] + 0 * strata)


def test_the_area_of_a_single_draw_varies_less_with_latin_masks():
    """Kept share of a token over a fine grid: 1/6 per π if independent, about 1/12 if spread."""
    size = 19
    grid = np.linspace(0.05, 0.95, size)
    variances = {}
    for sampler in ("iid", "latin"):
        sources = (uniforms(sampler, 1, str(k), 0, (500, 1), size, 1) for k in range(4))
        found = [[source.of_draw(j, 0)[:, 0] for j in range(size)] for source in sources]
        kept = np.concatenate(found, axis=1) < grid[:, None]  # (π, tokens)
        assert kept.mean() == pytest.approx(0.5, abs=0.01)
        variances[sampler] = kept.mean(axis=0).var()
    assert variances["latin"] < 0.65 * variances["iid"]


def test_more_draws_keep_the_earlier_ones():
    np.testing.assert_array_equal(drawn(draws=4), drawn(draws=15)[:4])


@pytest.mark.parametrize("sampler", ["iid", "latin"])
def test_every_part_of_the_key_matters(sampler):
    reference = drawn(sampler, tokens=9)
    for key in [(2, "a", 0), (1, "b", 0), (1, "a", 5)]:
        assert not np.isclose(drawn(sampler, key, tokens=9), reference).any()
    for index in (3, ORIGINAL):
        assert not np.isclose(drawn(sampler, index=index, tokens=9), reference).any()


@pytest.mark.parametrize("sampler", ["iid", "latin"])
def test_numbers_are_fixed_for_all_time(sampler):
    """Published results depend on these bits; a change here invalidates stored results."""
    found = drawn(sampler, (1, "sample", 0), tokens=2, draws=2)
    np.testing.assert_allclose(found, EXPECTED[sampler], rtol=0, atol=1e-15)


EXPECTED = {
    "iid": [[0.8458757586996538, 0.5598092023081493], [0.9441541041212055, 0.5407091681599978]],
    "latin": [[0.722853574714321, 0.4888390089140109], [0.222853574714321, 0.988839008914011]],
}
