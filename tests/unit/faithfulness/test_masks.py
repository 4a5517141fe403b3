"""Masks: the law of every bit, the spread of Latin ones, the number of counted ones, and keys."""

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from pisoft.faithfulness.calibration import calibrate, clip_scores
from pisoft.faithfulness.masks import ORIGINAL, calibrated_means, masks_of, measured_pi

GRID, DRAWS = 5, 4


def drawn(sampler="iid", key=(1, "a", 0), index=0, tokens=4, width=1, draws=DRAWS, grid=GRID):
    """Return the uniforms of all draws at one π, (draws, tokens) or (draws, tokens, width)."""
    source = masks_of(sampler, *key, (tokens, width), grid, draws)
    stacked = np.stack([source.of_draw(index, draw) for draw in range(draws)])
    return stacked[..., 0] if width == 1 else stacked


def over_samples(sampler, tokens, count, index=2):
    """Return the first two draws of many samples, (2, samples, tokens)."""
    draws = [drawn(sampler, (1, str(k), 0), index, tokens) for k in range(count)]
    return np.stack(draws)[:, :2].transpose(1, 0, 2)


@pytest.mark.parametrize("count", [1, 2, 5, 19])
def test_each_retaining_probability_is_measured_of_as_many_steps_as_any_other(count):
    places = [(sample, step) for sample in range(50) for step in range(3)]
    for seed in range(3):
        chosen = np.array([measured_pi(19, count, seed, place) for place in places])
        assert (np.diff(chosen, axis=1) > 0).all(), "a π twice"
        for first in (20, len(places)):  # already of the first steps
            share = np.bincount(chosen[:first].ravel(), minlength=19) / first
            np.testing.assert_allclose(share, count / 19, atol=4 / first)


def test_any_retaining_probability_may_be_the_first_of_a_seed():
    chosen = [measured_pi(19, 2, seed, (0, 0)) for seed in range(2000)]
    share = np.bincount(np.ravel(chosen), minlength=19) / len(chosen)
    np.testing.assert_allclose(share, 2 / 19, atol=4 * np.sqrt(2 / 19 / len(chosen)))


@pytest.mark.parametrize("sampler", ["iid", "latin"])
def test_each_bit_is_kept_with_its_score_and_by_itself(sampler):
    scores = np.array([0.0, 0.02, 0.3, 0.5, 0.9, 1.0])
    count = 3000
    for of_draw in over_samples(sampler, len(scores), count):
        kept = (of_draw < scores).sum(axis=0)
        assert kept[0] == 0
        assert kept[-1] == count
        for times, score in zip(kept[1:-1], scores[1:-1], strict=True):
            assert binomtest(int(times), count, score).pvalue > 1e-4
        assert kstest(of_draw[:, 2], "uniform").pvalue > 1e-4
        off_diagonal = np.corrcoef(of_draw.T)[np.triu_indices(len(scores), 1)]
        assert np.abs(off_diagonal).max() < 0.08


def test_independent_draws_are_uncorrelated():
    draws = drawn(draws=3000)
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 0.08


@pytest.mark.parametrize("index", [0, 4, ORIGINAL])
@pytest.mark.parametrize("width", [1, 3])
def test_latin_draws_fill_every_stratum_once(index, width):
    draws = drawn("latin", index=index, tokens=50, width=width).reshape(DRAWS, -1)
    strata = np.floor(draws * DRAWS).astype(int)
    np.testing.assert_array_equal(np.sort(strata, axis=0), np.arange(DRAWS)[:, None] + 0 * strata)
    assert len(np.unique(strata.argsort(axis=0), axis=1).T) > 1, "each token has its own order"


def test_latin_retaining_probabilities_of_a_draw_fill_every_stratum_once():
    source = masks_of("latin", 1, "a", 0, (50, 1), GRID, DRAWS)
    draws = np.stack([source.of_draw(index, 2)[:, 0] for index in range(GRID)])
    strata = np.floor(draws * GRID).astype(int)
    np.testing.assert_array_equal(np.sort(strata, axis=0), np.arange(GRID)[:, None] + 0 * strata)


def test_the_area_of_a_single_draw_varies_less_with_latin_masks():
    """Kept share of a token over a fine grid: 1/6 per π if independent, about 1/12 if spread."""
    size = 19
    grid = np.linspace(0.05, 0.95, size)
    variances = {}
    for sampler in ("iid", "latin"):
        sources = (masks_of(sampler, 1, str(k), 0, (500, 1), size, 1) for k in range(4))
        draws = [[source.of_draw(j, 0)[:, 0] for j in range(size)] for source in sources]
        kept = np.concatenate(draws, axis=1) < grid[:, None]  # (π, tokens)
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
    uniforms = drawn(sampler, (1, "sample", 0), tokens=2, draws=3)
    np.testing.assert_allclose(uniforms, EXPECTED[sampler], rtol=0, atol=1e-15)


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


FLOOR = 1e-6
PI = tuple(round(0.05 * k, 2) for k in range(1, 20))


def calibrated(raw, pi=PI):
    """Return scores calibrated for counted masks, (P, m), and how many tokens each keeps."""
    means = calibrated_means("count", np.array(pi), raw.size)
    calibration = calibrate(raw, means, FLOOR)
    return clip_scores(raw, FLOOR) ** calibration.alpha[:, None], means * raw.size


def counted(scores, key=(1, "a", 0), index=0, draw=0):
    return masks_of("count", *key, (len(scores), 1), GRID, DRAWS).kept(index, draw, scores)


def score_shapes(tokens, generator):
    """Scores as methods give them: spread evenly, few high, few low, half zeros and ones, equal."""
    even = generator.random(tokens)
    for scores in (even, even**30, 1 - even**30, (even < 0.5).astype(float)):
        yield (scores - scores.min()) / max(np.ptp(scores), 1e-300)
    yield np.full(tokens, 0.5)


def test_means_are_counts_of_tokens_at_least_one_and_not_all():
    grid = np.array([0.01, 0.15, 0.25, 0.29, 0.75, 0.99])
    means = calibrated_means("count", grid, 10)
    np.testing.assert_allclose(means, [0.1, 0.2, 0.3, 0.3, 0.8, 0.9])
    assert calibrated_means("count", np.array([0.29]), 50) == 15 / 50, "14.5, though not in floats"
    np.testing.assert_allclose(calibrated_means("count", grid, 2), 0.5)
    for sampler in ("iid", "latin"):
        np.testing.assert_array_equal(calibrated_means(sampler, grid, 10), grid)


@pytest.mark.parametrize("tokens", [2, 3, 7, 40, 1000])
def test_counted_masks_keep_exactly_as_many_tokens_at_every_pi(tokens):
    generator = np.random.default_rng(tokens)
    for number, raw in enumerate(score_shapes(tokens, generator)):
        scores, counts = calibrated(raw)
        for index, (of_pi, count) in enumerate(zip(scores, counts, strict=True)):
            for draw in range(5):
                kept = counted(of_pi, (1, f"{number}", 0), index, draw)
                assert kept.shape == (tokens, 1)
                assert kept.sum() == pytest.approx(count, abs=1e-6), (number, index, draw)
                assert (~kept).sum() == tokens - kept.sum(), "of NC"


@pytest.mark.parametrize(
    ("raw", "pi", "counts"),
    [
        *(
            (np.linspace(0, 1, 12) ** 3, pi, {count})
            for pi, count in ((0.05, 1), (0.5, 6), (0.9, 11))
        ),
        (np.array([0.5]), 0.3, {0, 1}),
        (np.array([0.0, 0.2, 0.3, 1.0, 0.9, 0.05]), None, {2, 3}),  # 2.45 in all
    ],
)
def test_counted_masks_keep_each_token_with_its_score(raw, pi, counts):
    """Those of the original metrics (π: None) keep the floor or the ceiling of the sum."""
    scores = raw if pi is None else calibrated(raw, (pi,))[0][0]
    assert pi is None or len(raw) > 1 or scores == pytest.approx(pi)
    draws, index = 4_000, ORIGINAL if pi is None else 0
    source = masks_of("count", 1, "a", 0, (len(raw), 1), GRID, draws)
    kept = np.stack([source.kept(index, draw, scores)[:, 0] for draw in range(draws)])
    assert set(kept.sum(axis=1)) == counts
    errors = np.sqrt(scores * (1 - scores) / draws)
    assert (np.abs(kept.mean(axis=0) - scores) <= 4.5 * errors + 1e-12).all()


@pytest.mark.parametrize("shift", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("off", [-1e-10, 1e-10])
def test_rounding_changes_no_count(monkeypatch, shift, off):
    """Sums a little off, and intervals a little longer than 1, as rounding leaves them."""
    scores = np.array([1 + 1e-12, 1.0, 1 - 1e-12, 0.5, 0.5 + off])

    class Fixed:
        def permutation(self, count):
            return np.arange(count)

        def random(self):
            return shift

    monkeypatch.setattr("pisoft.faithfulness.masks.keyed_generator", lambda *key: Fixed())
    assert counted(scores).sum() == 4
    assert counted(scores[::-1]).sum() == 4


def test_counted_masks_are_the_same_for_equal_scores_and_no_other_key():
    scores, _ = calibrated(np.random.default_rng(2).random(60), (0.5,))
    reference = counted(scores[0])
    np.testing.assert_array_equal(counted(scores[0].copy()), reference)
    several = masks_of("count", 1, "a", 0, (60, 1), 19, 3)
    several.kept(4, 2, scores[0])
    np.testing.assert_array_equal(several.kept(0, 0, scores[0]), reference)  # whatever came before
    for key in [(2, "a", 0), (1, "b", 0), (1, "a", 5)]:
        assert (counted(scores[0], key) != reference).any()
    for index, draw in ((3, 0), (ORIGINAL, 0), (0, 1)):
        assert (counted(scores[0], index=index, draw=draw) != reference).any()


def test_counted_masks_are_fixed_for_all_time():
    """Published results also depend on these bits."""
    kept = counted(np.full(10, 0.3), (1, "sample", 0))
    assert np.flatnonzero(kept).tolist() == COUNTED


COUNTED = [0, 5, 9]
