"""Random scores: one uniform draw per step, or per sample if its steps are averaged."""

import numpy as np
import pytest

from helpers.random_models import random_model
from pisoft.attribution.base import Context
from pisoft.attribution.random import Random
from pisoft.faithfulness.scores import aggregated
from pisoft.models.model import Batch, ExplainedSample

STEPS = list(range(10))
TOKENS = 20_000


def heatmap(how, sample="a"):
    """Return the mean over the steps of a sample's random scores, and those of each step."""
    method = Random(Random.Options(), Context(seed=1, step_scores=how))
    one = ExplainedSample(sample, [1] * TOKENS, STEPS, STEPS, STEPS)
    (scores,) = method.attribute(random_model("llama-gqa"), Batch([one], "cpu"))
    rows = [
        {"step": k, "raw_scores": s, "status": "ok"} for k, s in enumerate(scores.float().numpy())
    ]
    return aggregated(rows)[0]["raw_scores"], scores.numpy()


def test_a_heatmap_per_sample_is_one_uniform_draw():
    mean, draws = heatmap("aggregated")
    np.testing.assert_array_equal(mean, draws[0].astype(np.float32), "of ten equal numbers")
    counts = np.histogram(mean, 20, (0, 1))[0]
    assert ((counts - TOKENS / 20) ** 2 / (TOKENS / 20)).sum() < 43.8  # χ² of 19, p = .001
    assert mean.var() == pytest.approx(1 / 12, rel=4 * np.sqrt(0.8 / TOKENS))  # kurtosis 1.8
    assert not (mean == heatmap("aggregated", "b")[0]).any(), "each sample has its own"


def test_separately_evaluated_steps_have_independent_draws():
    mean, draws = heatmap("own")
    assert mean.var() == pytest.approx(1 / 120, rel=0.05)
    assert np.abs(np.corrcoef(draws) - np.eye(10)).max() < 0.04
