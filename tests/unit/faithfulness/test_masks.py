"""Masks: distribution of bits, Latin stratification, counted masks, and keys."""

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from pisoft.faithfulness import masks
from pisoft.faithfulness.calibration import calibrate, clip_scores
from pisoft.faithfulness.masks import (
    ORIGINAL,
    IndependentUniforms,
    calibrated_means,
    kept_tokens,
    masks_of,
    measured_pi,
    systematic_pi,
)
from pisoft.seeds import keyed_generator

GRID, DRAWS = 5, 4
KEY = (1, "a", 0)


def source_of(sampler, tokens, key=KEY, width=1):
    return masks_of(sampler, *key, (tokens, width), GRID, DRAWS)


# Measured retaining probabilities -------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5, 19])
def test_every_retaining_probability_is_measured_at_equally_many_steps(count):
    places = [(sample, step) for sample in range(50) for step in range(3)]
    chosen = np.array([measured_pi(19, count, 2, place) for place in places])
    assert (np.diff(chosen, axis=1) > 0).all(), "a π twice"
    for first in (20, len(places)):  # already in the first steps
        share = np.bincount(chosen[:first].ravel(), minlength=19) / first
        np.testing.assert_allclose(share, count / 19, atol=4 / first)


def test_measured_pi_start_at_the_seed_and_shift_by_fixed_ratios():
    """Published results also depend on which retaining probabilities are measured."""
    for sample, step in np.ndindex(9, 4):
        start = keyed_generator(7, "measured pi").random()
        start += sample * (1 + 5**0.5) / 2 + step * (1 + 2**0.5)
        expected = [int((place + start % 1) * 19 / 4) for place in range(4)]
        assert measured_pi(19, 4, 7, (sample, step)).tolist() == expected
    assert measured_pi(19, None, 7, (8, 3)).tolist() == list(range(19))
    assert systematic_pi(19, 4, 1 - 2**-53).tolist() == [4, 9, 14, 18], "not 19, by rounding"


# Bernoulli masks ------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["iid", "latin"])
def test_bits_are_independent_with_probability_equal_to_their_score(sampler):
    scores = np.array([0.0, 0.02, 0.3, 0.5, 0.9, 1.0])
    sources = [source_of(sampler, len(scores), (1, str(k), 0)) for k in range(3000)]
    for draw in range(2):
        uniforms = np.stack([source.uniforms(2, draw)[:, 0] for source in sources])
        kept = sum(source.kept(2, draw, scores)[:, 0].astype(int) for source in sources)
        assert (kept == (uniforms < scores).sum(axis=0)).all()
        assert (kept[0], kept[-1]) == (0, 3000)
        for times, score in zip(kept[1:-1], scores[1:-1], strict=True):
            assert binomtest(int(times), 3000, score).pvalue > 1e-4
        assert kstest(uniforms[:, 2], "uniform").pvalue > 1e-4
        off_diagonal = np.corrcoef(uniforms.T)[np.triu_indices(len(scores), 1)]
        assert np.abs(off_diagonal).max() < 0.08


def test_a_token_with_score_zero_is_always_removed(monkeypatch):
    monkeypatch.setattr(IndependentUniforms, "uniforms", lambda *_: np.zeros((2, 1)))
    assert source_of("iid", 2).kept(0, 0, np.array([0, 1e-9])).tolist() == [[False], [True]]


@pytest.mark.parametrize("width", [1, 3])
def test_latin_masks_fill_every_stratum_once(width):
    source = source_of("latin", 50, width=width)
    for index in (0, 4, ORIGINAL):
        assert_strata([source.uniforms(index, draw) for draw in range(DRAWS)])
    assert_strata([source.uniforms(index, 2) for index in range(GRID)])


def assert_strata(uniforms):
    """Assert that every token has one uniform in each stratum, in an independent order."""
    size = len(uniforms)
    strata = np.floor(np.reshape(uniforms, (size, -1)) * size).astype(int)
    np.testing.assert_array_equal(np.sort(strata, axis=0), np.arange(size)[:, None] + 0 * strata)
    assert len(np.unique(strata.argsort(axis=0), axis=1).T) > 1


# Keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["iid", "latin", "count"])
def test_masks_depend_exactly_on_their_key(sampler):
    scores = np.full(60, 0.5)
    source = source_of(sampler, 60)
    probabilities = np.stack([scores, scores / 2, scores])
    original = kept_tokens(source, probabilities, 0, 1)
    np.testing.assert_array_equal(original, source.kept(ORIGINAL, 1, scores))
    reference = kept_tokens(source, probabilities, 2, 1)
    np.testing.assert_array_equal(reference, source_of(sampler, 60).kept(1, 1, scores.copy()))
    for key in [(2, "a", 0), (1, "b", 0), (1, "a", 5)]:
        assert (source_of(sampler, 60, key).kept(1, 1, scores) != reference).any()
    for index, draw in ((3, 1), (ORIGINAL, 1), (1, 0)):
        assert (source.kept(index, draw, scores) != reference).any()


def test_masks_equal_those_of_published_results():
    """Published results depend on these bits; a change here invalidates stored results."""
    key = (1, "sample", 0)
    for sampler, expected in EXPECTED.items():
        source = masks_of(sampler, *key, (2, 1), GRID, 3)
        uniforms = [source.uniforms(0, draw)[:, 0] for draw in range(3)]
        np.testing.assert_allclose(uniforms, expected, rtol=0, atol=1e-15)
    counted = source_of("count", 10, key).kept(0, 0, np.full(10, 0.3))
    assert np.flatnonzero(counted).tolist() == [0, 5, 9]
    generator = keyed_generator(1, "latin", "sample", 0, "original")
    shift, _ = generator.random((2, 1)), generator.permuted(np.zeros((1, 2, 1)), axis=0)
    order = generator.permuted(np.tile(np.arange(3.0)[:, None, None], (1, 2, 1)), axis=0)
    latin = masks_of("latin", *key, (2, 1), GRID, 3)
    np.testing.assert_allclose(latin.uniforms(ORIGINAL, 1), (shift + order[1] / 3) % 1)


EXPECTED = {
    "iid": [
        [0.8458757586996538, 0.5598092023081493],
        [0.9441541041212055, 0.5407091681599978],
        [0.8452319257447963, 0.3191369576289952],
    ],
    "latin": [
        [0.3895202612492026, 0.6555056954488925],
        [0.722853574714321, 0.988839008914011],
        [0.056186917981761786, 0.3221723521814517],
    ],
}


# Counted masks --------------------------------------------------------------------------------

FLOOR = 1e-6
PI = tuple(round(0.05 * k, 2) for k in range(1, 20))


def calibrated(raw, pi=PI):
    """Return scores calibrated for counted masks, (P, m), and how many tokens each keeps."""
    means = calibrated_means("count", np.array(pi), raw.size)
    calibration = calibrate(raw, means, FLOOR)
    return clip_scores(raw, FLOOR) ** calibration.alpha[:, None], means * raw.size


def score_shapes(tokens, generator):
    """Scores shaped like those of methods: even, few high, few low, half zeros and ones, equal."""
    even = generator.random(tokens)
    for scores in (even, even**30, 1 - even**30, (even < 0.5).astype(float)):
        yield (scores - scores.min()) / max(np.ptp(scores), 1e-300)
    yield np.full(tokens, 0.5)


def test_counted_means_are_whole_tokens_at_least_one_and_not_all():
    grid = np.array([0.01, 0.15, 0.25, 0.29, 0.75, 0.99])
    means = calibrated_means("count", grid, 10)
    np.testing.assert_allclose(means, [0.1, 0.2, 0.3, 0.3, 0.8, 0.9])
    assert calibrated_means("count", np.array([0.29]), 50) == 15 / 50, "14.5, though not in floats"
    np.testing.assert_allclose(calibrated_means("count", grid, 2), 0.5)
    for sampler in ("iid", "latin"):
        np.testing.assert_array_equal(calibrated_means(sampler, grid, 10), grid)


@pytest.mark.parametrize("tokens", [2, 3, 7, 40, 1000])
def test_counted_masks_keep_the_exact_count_at_every_pi(tokens):
    for number, raw in enumerate(score_shapes(tokens, np.random.default_rng(tokens))):
        source = source_of("count", tokens, (1, f"{number}", 0))
        for index, (scores, count) in enumerate(zip(*calibrated(raw), strict=True)):
            for draw in range(3):
                kept = source.kept(index, draw, scores)
                assert (kept.shape, kept.dtype) == ((tokens, 1), bool)
                assert kept.sum() == pytest.approx(count, abs=1e-6), (number, index, draw)


@pytest.mark.parametrize(
    ("raw", "pi", "counts"),
    [
        *((np.linspace(0, 1, 12) ** 3, pi, {n}) for pi, n in ((0.05, 1), (0.5, 6), (0.9, 11))),
        (np.array([0.5]), 0.3, {0, 1}),
        (np.array([0.0, 0.2, 0.3, 1.0, 0.9, 0.05]), None, {2, 3}),  # 2.45 in all
    ],
)
def test_counted_masks_keep_tokens_with_probability_equal_to_their_score(raw, pi, counts):
    """Those of the original metrics (π: None) keep the floor or the ceiling of the sum."""
    scores = raw if pi is None else calibrated(raw, (pi,))[0][0]
    assert pi is None or len(raw) > 1 or scores == pytest.approx(pi)
    draws, index = 4_000, ORIGINAL if pi is None else 0
    source = source_of("count", len(raw))
    kept = np.stack([source.kept(index, draw, scores)[:, 0] for draw in range(draws)])
    assert set(kept.sum(axis=1)) == counts
    errors = np.sqrt(scores * (1 - scores) / draws)
    assert (np.abs(kept.mean(axis=0) - scores) <= 4.5 * errors + 1e-12).all()


@pytest.mark.parametrize("shift", [0.0, 0.5, 1 - 2**-53])
def test_rounding_changes_no_count_and_keeps_no_token_with_score_zero(monkeypatch, shift):
    """Sums slightly off and intervals slightly longer than 1, as rounding produces them."""

    class Fixed:
        def permutation(self, count):
            return np.arange(count)

        def random(self):
            return shift

    monkeypatch.setattr(masks, "keyed_generator", lambda *key: Fixed())
    for off in (-3e-9, -1e-10, 1e-10, 3e-9):
        scores = np.array([1 + 1e-12, 1.0, 1 - 1e-12, 0.5, 0.5 + off])
        for ordered in (scores, scores[::-1]):
            assert source_of("count", 5).kept(0, 0, ordered).sum() == 4
    kept = source_of("count", 4).kept(0, 0, np.array([0.0, 1.0, 0.0, 1.0]))
    assert kept[:, 0].tolist() == [False, True, False, True]
