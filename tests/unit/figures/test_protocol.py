"""The illustration of the protocol: shares and calibration in plain Python."""

import numpy as np
import pandas as pd
import pytest

from helpers import explained_rows
from pisoft.config.evaluation import ScoreSettings
from pisoft.figures.protocol import calibrated, read_alphas, retaining_shares
from pisoft.statistics.scores import read_scores

POWERS = {"random": 1, "attention": 8, "mine": 2, "uncalibrated": 4, "failing": 3}
TOKENS = {"a": 12, "b": 30}


def scores_of(method, sample):
    """Return scores as they are stored, in float32."""
    spread = np.random.default_rng(TOKENS[sample]).permutation(TOKENS[sample])
    scores = (spread / (TOKENS[sample] - 1)) ** POWERS[method]
    return scores.astype(np.float32).astype(float)


@pytest.fixture
def example(tmp_path):
    """Return a function that returns the example of some methods.

    `uncalibrated` has no α of the first sample, and `failing` neither scores nor α of any.
    """
    raw = {
        method: {
            name: [None if method == "failing" else scores_of(method, name)] for name in TOKENS
        }
        for method in POWERS
    }
    files = explained_rows.write_scores(tmp_path, raw, TOKENS)
    no_alpha = {("uncalibrated", "a"), ("failing", "a"), ("failing", "b")}

    def alphas(method):
        rows = []
        for name in TOKENS:
            status = "degenerate_baseline" if (method, name) in no_alpha else "ok"
            scores = scores_of(method, name)
            rows += explained_rows.soft(name, scores, (0.1, 0.35, 0.9), status=status)
        path = explained_rows.write(tmp_path, "soft", rows, "dynamic", "llama", method)
        return read_alphas(path, 0.35)

    def of(*methods):
        steps = read_scores(files["prompts"][0], files["attributions"], ScoreSettings())
        return calibrated(steps, {method: alphas(method) for method in methods}, 1e-6)

    return of


def test_the_stored_alpha_gives_all_methods_the_same_mean(example):
    shown = example("random", "attention", "mine")
    assert (shown.sample_id, shown.step) == ("a", 0)
    for method in ("random", "attention", "mine"):
        assert shown.before[method] == pytest.approx(scores_of(method, "a"), abs=1e-7)
        clipped = np.clip(shown.before[method], 1e-6, 1 - 1e-6)
        assert shown.after[method] == pytest.approx(clipped ** shown.alpha[method])
        assert shown.after[method].mean() == pytest.approx(0.35, abs=1e-9)


def test_the_example_is_the_first_step_that_all_shown_methods_have(example):
    assert example("uncalibrated", "mine").sample_id == "b"
    assert example("failing", "mine") is None


def test_shares_are_those_of_samples_that_did_not_fail():
    values = {"mean_score": 0.25, "soft_nc": 0.5, "soft_ns": 0.75}
    samples = [
        {"method": "mine", "sample_id": name, "metric": metric, "value": value, "status": status}
        for name, status in (("a", "ok"), ("b", "prompt_too_long"))
        for metric, value in values.items()
    ]
    shares = retaining_shares(pd.DataFrame(samples)).reset_index()
    row = {"sample_id": "a", "method": "mine", "share": 0.25, "soft_nc": 0.5}
    assert shares.to_dict("records") == [row]
    assert retaining_shares(pd.DataFrame(samples[3:])).empty
