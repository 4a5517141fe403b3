"""Fixed routing against a plain forward, layer by layer in float64, that keeps attention maps."""

import numpy as np
import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from helpers.evaluations import distances, evaluated
from helpers.random_models import SHAPES, twins
from pisoft.config.evaluation import EvaluationSettings
from pisoft.faithfulness.perturbation import PerturbationTarget

IDS = [1, 40, 41, 8, 9, 10, 33, 60, 12, 7]
PERTURBABLE = np.array([3, 4, 6, 7, 8])
TARGET = PerturbationTarget(IDS, PERTURBABLE, 5)
MASKS = np.random.default_rng(0).random((9, 5)) < 0.5


def plain_forward(plain, embeddings, maps=None):
    """Return the last position's logits (V,), and every layer's attention maps (H, T, T).

    Args:
        plain: the unpatched model.
        embeddings: of one sequence, (T, d).
        maps: attention maps to use; None computes them.
    """
    decoder, config, count = plain.model, plain.config, len(embeddings)
    distance = torch.arange(count)[:, None] - torch.arange(count)
    window = getattr(config, "sliding_window", None) or count
    hidden_from = (distance < 0) | (distance >= window)
    rotation = decoder.rotary_emb(embeddings[None], torch.arange(count)[None])
    states, used = embeddings, []
    for index, layer in enumerate(decoder.layers):
        attention, normed = layer.self_attn, layer.input_layernorm(states)

        def heads(projection, normed=normed):
            return projection(normed).view(count, -1, config.head_dim).transpose(0, 1)

        value = heads(attention.v_proj)
        query, key = (
            rotated[0]
            for rotated in apply_rotary_pos_emb(
                heads(attention.q_proj)[None], heads(attention.k_proj)[None], *rotation
            )
        )
        shared = len(query) // len(key)
        scores = query @ key.repeat_interleave(shared, 0).transpose(1, 2) * config.head_dim**-0.5
        own = scores.masked_fill(hidden_from, -torch.inf).softmax(dim=-1)
        used.append(own if maps is None else maps[index])
        mixed = (used[-1] @ value.repeat_interleave(shared, 0)).transpose(0, 1).flatten(1)
        states = states + attention.o_proj(mixed)
        states = states + layer.mlp(layer.post_attention_layernorm(states))
    return plain.lm_head(decoder.norm(states[-1])), used


def plain_distances(plain, masks):
    """Return Hellinger distances to the clean prediction under fixed routing, (N,)."""
    with torch.no_grad():
        embeddings = plain.get_input_embeddings()(torch.tensor(IDS))
        clean, maps = plain_forward(plain, embeddings)
        distances = []
        for mask in masks:
            factors = torch.ones(len(IDS), 1, dtype=torch.float64)
            factors[PERTURBABLE, 0] = torch.from_numpy(mask).double()
            logits, _ = plain_forward(plain, embeddings * factors, maps)
            roots = clean.softmax(-1).sqrt(), logits.softmax(-1).sqrt()
            distances.append(float((roots[0] - roots[1]).square().sum().div(2).sqrt()))
    return np.array(distances)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_plain_forward_is_the_models_own(shape):
    _, plain = twins(shape)
    with torch.no_grad():
        found, _ = plain_forward(plain, plain.get_input_embeddings()(torch.tensor(IDS)))
        expected = plain(torch.tensor([IDS])).logits[0, -1]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)  # eager softmax: float32


@pytest.mark.parametrize("shape", SHAPES)
def test_every_draw_equals_the_plain_forward(shape):
    model, plain = twins(shape)
    found = distances(model, TARGET, MASKS, 30, "fixed")
    np.testing.assert_allclose(found, plain_distances(plain, MASKS), atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_zero_baseline_is_replayed_too(shape):
    model, plain = twins(shape)
    settings = EvaluationSettings(pi_grid=(0.2, 0.8), draws=2)
    row = {"sample_id": "s", "step": 0, "raw_scores": list(range(10)), "status": "ok"}
    fixed, dynamic = (
        evaluated(model, [(TARGET, row)], settings, protocol=protocol)[0][0]["h0"]
        for protocol in ("fixed", "dynamic")
    )
    (expected,) = plain_distances(plain, np.zeros((1, 5)))
    assert fixed == pytest.approx(expected, abs=1e-7)
    assert abs(fixed - dynamic) > 1e-4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_replaying_the_clean_input_changes_nothing_at_all(shape, dtype):
    model, _ = twins(shape, dtype)
    assert distances(model, TARGET, np.ones((2, 5), dtype=bool), 1, "fixed").max() == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_draws_are_near_those_of_the_same_weights_in_float64(shape):
    rounded, (exact, _) = twins(shape, torch.bfloat16)[0], twins(shape)
    exact.network.load_state_dict(rounded.network.state_dict())
    found, expected = (distances(model, TARGET, MASKS, 100, "fixed") for model in (rounded, exact))
    np.testing.assert_allclose(found, expected, atol=0.03)
