"""Logits at chosen positions, the last layer cut short, equal those of the whole forward."""

import pytest
import torch

from helpers.random_models import SHAPES, random_model
from pisoft.models.model import LanguageModel

IDS = torch.tensor([[1, 5, 9, 33, 7, 60], [1, 44, 44, 2, 80, 3]])
POSITIONS = torch.tensor([[5, 0, 2], [3, 3, 5]])  # out of order, and one of them twice


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_and_gradients_equal_those_of_the_whole_forward(shape):
    model = random_model(shape)
    results = []
    for logits_of in (
        lambda x: model.next_token_logits(x, POSITIONS),
        lambda x: model.logits_at(model.hidden_states(x), POSITIONS),
    ):
        embeddings = model.embed(IDS).requires_grad_(True)
        logits = logits_of(embeddings)
        (gradients,) = torch.autograd.grad(logits[:, :, 11].square().sum(), embeddings)
        results.append((logits, gradients))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_last_feed_forward_block_sees_the_chosen_positions_only(shape):
    model = random_model(shape)
    seen = []
    handle = model.decoder.layers[-1].mlp.register_forward_hook(
        lambda _, inputs, __: seen.append(inputs[0].shape[:2])
    )
    model.next_token_logits(model.embed(IDS), POSITIONS)
    handle.remove()
    assert seen == [(1, 1), POSITIONS.shape]


def test_other_layers_are_run_whole():
    """A model whose last layer does more than ours know must not be cut short."""
    network = random_model("llama-gqa").network
    network.model.layers[-1].register_forward_hook(lambda _, __, output: output.roll(1, -1))
    model = LanguageModel(network, "other")
    logits = model.next_token_logits(model.embed(IDS), POSITIONS)
    whole = model.logits_at(model.hidden_states(model.embed(IDS)), POSITIONS)
    torch.testing.assert_close(logits, whole)
