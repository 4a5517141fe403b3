"""Fixed routing against eager forwards with fixed attention maps, one input at a time."""

import numpy as np
import pytest
import torch

from helpers.eager_reference import NAME, logits, observed
from helpers.evaluations import distances, evaluated
from helpers.random_models import SHAPES, model_and_network
from pisoft.config.evaluation import EvaluationSettings
from pisoft.faithfulness.perturbation import PerturbationTarget

IDS = [1, 40, 41, 8, 9, 10, 33, 60, 12, 7]
PERTURBABLE = np.array([3, 4, 6, 7, 8])
TARGET = PerturbationTarget(IDS, PERTURBABLE, 5)
MASKS = np.random.default_rng(0).random((9, 5)) < 0.5


@torch.no_grad()
def plain_distances(plain, masks):
    """Return Hellinger distances to the clean prediction under its attention maps, (N,)."""
    plain.set_attn_implementation(NAME)
    embeddings = plain.get_input_embeddings()(torch.tensor([IDS]))
    clean, maps = logits(plain, embeddings).softmax(-1), observed(plain, IDS).maps
    expected = []
    for mask in masks:
        perturbed = embeddings.clone()
        perturbed[0, PERTURBABLE] *= torch.from_numpy(mask).double()[:, None]
        one = logits(plain, perturbed, held=maps).softmax(-1)
        expected.append(float((clean.sqrt() - one.sqrt()).square().sum().div(2).sqrt()))
    return np.array(expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_draw_and_the_zero_baseline_equal_the_plain_forward(shape):
    model, plain = model_and_network(shape)
    result = distances(model, TARGET, MASKS, 30, "fixed")
    np.testing.assert_allclose(result, plain_distances(plain, MASKS), atol=1e-7)
    row = {"sample_id": "s", "step": 0, "raw_scores": list(range(10)), "status": "ok"}
    settings = EvaluationSettings(pi_grid=(0.2, 0.8), draws=2)
    ((row, *_),) = evaluated(model, [(TARGET, row)], settings, protocol="fixed")
    assert row["h0"] == pytest.approx(plain_distances(plain, np.zeros((1, 5)))[0], abs=1e-7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_replaying_the_clean_input_changes_nothing(shape, dtype):
    model, _ = model_and_network(shape, dtype)
    assert distances(model, TARGET, np.ones((2, 5), dtype=bool), 1, "fixed").max() == 0
