"""The distribution of scores: numbers against plain Python, and what is missing."""

import numpy as np
import pytest

from helpers import explained_rows
from pisoft.config.evaluation import ScoreSettings
from pisoft.figures.scores import distribution
from pisoft.statistics.scores import read_scores

GENERATOR = np.random.default_rng(5)
RAW = {  # by sample and step; unequal numbers of tokens and steps
    ("a", 0): GENERATOR.random(7),
    ("a", 5): GENERATOR.random(7) ** 4,
    ("b", 0): GENERATOR.random(30),
}


def write_files(folder, rows, dataset="sst2", method="mine"):
    texts = {"a": ["t"] * 7, "b": ["t"] * 30, "c": ["t"] * 3}
    asked = [explained_rows.prompt(name, text) for name, text in texts.items()]
    prompts = explained_rows.write(folder, "prompts", asked, "llama", dataset=dataset)
    return prompts, explained_rows.write(
        folder, "attributions", rows, "llama", method, dataset=dataset
    )


def rows_of(raw, failed=("c",)):
    return [
        *(explained_rows.attribution(name, scores, step) for (name, step), scores in raw.items()),
        *(explained_rows.attribution(name, None, 0, "nonfinite_attribution") for name in failed),
    ]


def read(folder, rows):
    prompts, path = write_files(folder, rows)
    return distribution(read_scores(prompts, [path], ScoreSettings()), "mine")


def test_samples_steps_and_tokens_weigh_the_same_within_each_other(tmp_path):
    scores = read(tmp_path, rows_of(RAW))
    weights = {("a", 0): 1 / 4, ("a", 5): 1 / 4, ("b", 0): 1 / 2}
    mean, shares = 0.0, [0.0] * 40
    for key, raw in RAW.items():
        for value in raw.astype(np.float32).astype(np.float64).tolist():
            low, high = (f(RAW[key].astype(np.float32).astype(float)) for f in (np.min, np.max))
            score = (value - low) / (high - low)
            mean += weights[key] * score / len(raw)
            shares[min(int(score * 40), 39)] += weights[key] / len(raw)
    assert scores.mean == pytest.approx(mean)
    assert scores.shares == pytest.approx(np.array(shares))
    assert scores.shares.sum() == pytest.approx(1)
    assert (scores.n, scores.n_failed) == (2, 1)


def test_a_sample_of_which_a_step_failed_counts_with_its_other_steps(tmp_path):
    rows = rows_of(RAW)
    rows[1] = explained_rows.attribution("a", None, 5, "nonfinite_attribution")
    scores = read(tmp_path, rows)
    only = {key: raw for key, raw in RAW.items() if key != ("a", 5)}
    assert scores.shares == pytest.approx(read(tmp_path / "b", rows_of(only)).shares)
    assert (scores.n, scores.n_failed) == (2, 1)


@pytest.mark.parametrize("status", ["nonfinite_attribution", "prompt_too_long"])
def test_a_method_that_failed_on_all_samples_has_no_distribution(tmp_path, status):
    rows = [explained_rows.attribution(name, None, 0, status) for name in "abc"]
    scores = read(tmp_path, rows)
    assert (scores.n, scores.n_failed) == (0, 3)
    assert np.isnan(scores.mean)
    assert not scores.shares.any()


def test_equal_scores_are_one_half(tmp_path):
    scores = read(tmp_path, rows_of({("a", 0): np.full(7, 3.0)}, failed=("b", "c")))
    assert scores.mean == 0.5
    assert scores.shares[20] == 1
