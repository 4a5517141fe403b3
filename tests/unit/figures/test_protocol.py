"""The protocol illustration: its example and the samples it counts."""

import numpy as np
import pandas as pd
import pytest

from helpers import explained_rows
from pisoft.figures.protocol import calibrated, read_alphas, retaining_shares
from pisoft.statistics.scores import StepScores


def test_the_example_is_the_first_step_common_to_all_shown_methods():
    """The other method has no α of a, and no scores of b."""
    scores = np.linspace(0, 1, 4)
    steps = [
        StepScores({"sample_id": name}, 0, np.arange(4), dict.fromkeys(methods, scores), {}, "rank")
        for name, methods in (("a", ("mine", "other")), ("b", ("mine",)), ("c", ("mine", "other")))
    ]
    alphas = {m: {(name, 0): 2.0 for name in of} for m, of in (("mine", "abc"), ("other", "bc"))}
    assert calibrated(steps, alphas, 1e-6).sample_id == "c"
    assert calibrated(steps[:2], alphas, 1e-6) is None


def test_alpha_comes_from_an_ok_row_at_the_retaining_probability(tmp_path):
    scores, grid = np.linspace(0, 1, 4), (0.1, 0.35, 0.9)
    rows = explained_rows.soft("a", scores, grid)
    rows += explained_rows.soft("b", scores, grid, status="degenerate_baseline")
    path = explained_rows.write(tmp_path, "soft", rows, "dynamic", "llama", "mine")
    assert read_alphas(path, 0.35) == {("a", 0): pytest.approx(rows[2]["alpha"])}


def test_shares_exclude_failed_samples():
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
