"""The score distribution against plain Python, and missing scores."""

import numpy as np
import pytest

from helpers import explained_rows
from pisoft.config.evaluation import ScoreSettings
from pisoft.figures.scores import distribution
from pisoft.statistics.scores import read_scores

GENERATOR = np.random.default_rng(5)
TOKENS = {"a": 7, "b": 30, "c": 3}
RAW = {  # by sample and step; numbers of tokens and steps differ
    "a": [GENERATOR.random(7), GENERATOR.random(7) ** 4],
    "b": [GENERATOR.random(30)],
    "c": [None],
}


def read(folder, raw):
    files = explained_rows.write_scores(folder, {"mine": raw}, TOKENS)
    steps = read_scores(files["prompts"][0], files["attributions"], ScoreSettings())
    return distribution(steps, "mine")


def test_samples_and_their_steps_and_tokens_have_equal_weights(tmp_path):
    scores = read(tmp_path, RAW)
    mean, shares = 0.0, [0.0] * 40
    for steps in (RAW["a"], RAW["b"]):
        for raw in steps:
            stored = raw.astype(np.float32).astype(float).tolist()
            weight = 1 / 2 / len(steps) / len(stored)
            for value in stored:
                score = (value - min(stored)) / (max(stored) - min(stored))
                mean += weight * score
                shares[min(int(score * 40), 39)] += weight
    assert scores.mean == pytest.approx(mean)
    assert scores.shares == pytest.approx(np.array(shares))
    assert scores.shares.sum() == pytest.approx(1)
    assert (scores.n, scores.n_failed) == (2, 1)


def test_a_sample_with_a_failed_step_counts_with_its_other_steps(tmp_path):
    scores = read(tmp_path / "failed", RAW | {"a": [RAW["a"][0], None]})
    only = read(tmp_path / "only", RAW | {"a": RAW["a"][:1]})
    assert scores.shares == pytest.approx(only.shares)
    assert (scores.n, scores.n_failed) == (2, 1)


def test_a_method_that_failed_on_all_samples_has_no_distribution(tmp_path):
    scores = read(tmp_path, {name: [None] for name in RAW})
    assert (scores.n, scores.n_failed) == (0, 3)
    assert np.isnan(scores.mean)
    assert not scores.shares.any()
