"""Logits at chosen positions; the last layer's feed-forward block runs only there."""

import pytest
import torch

from helpers.families import network
from helpers.random_models import SHAPES, random_model
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.last_layer import running_at
from pisoft.models.model import LanguageModel

IDS = torch.tensor([[1, 5, 9, 33, 7, 60], [1, 44, 44, 2, 80, 3]])
POSITIONS = torch.tensor([[5, 0, 2], [3, 3, 5]])  # out of order, and one of them twice
# Blocks after and parallel to attention, with experts, with norms, adding the residual themselves.
FAMILIES = ("GPT-2", "Phi 1, 2", "Mixtral", "Gemma 2", "BLOOM")


def a_model(name):
    if name in SHAPES:
        return random_model(name)
    return LanguageModel(network(name, ATTENTION_NAME), name)


@pytest.mark.parametrize("name", [*SHAPES, *FAMILIES])
def test_logits_and_gradients_equal_those_of_the_whole_forward(name):
    model = a_model(name)
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


@pytest.mark.parametrize("name", [*SHAPES, *FAMILIES])
def test_the_last_feed_forward_block_runs_at_the_chosen_positions_only(name):
    model = a_model(name)
    (block,) = (part for key, part in model.blocks[-1].named_children() if key.endswith("mlp"))
    seen = []
    block.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[:2]))
    model.next_token_logits(model.embed(IDS), POSITIONS)
    assert seen == [POSITIONS.shape]
    model.hidden_states(model.embed(IDS))
    assert seen[1:] == [IDS.shape]


def test_a_layer_whose_neurons_attention_reads_runs_at_all_positions():
    """Zeros at skipped positions would change the attention output, however slightly."""

    class Swapped(torch.nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.self_attn, self.mlp = layer.self_attn, layer.mlp

        def forward(self, hidden_states, **options):
            neurons = self.mlp(hidden_states)
            return 1e3 * hidden_states + 1e-3 * self.self_attn(neurons, **options)[0]

    decoder = random_model("llama-gqa").network
    decoder.model.layers[-1] = Swapped(decoder.model.layers[-1])
    model = LanguageModel(decoder, "swapped")
    inputs = model.embed(IDS)
    whole = model.logits_at(model.hidden_states(inputs), POSITIONS)
    assert torch.equal(model.next_token_logits(inputs, POSITIONS), whole)
    assert not model._independent_parts


def test_existing_overrides_of_a_block_are_kept_and_restored():
    model = random_model("llama-gqa")
    (block,) = model._independent_parts
    inputs = model.embed(IDS)
    compiled = block._compiled_call_impl = lambda hidden: hidden.new_full(hidden.shape, 7.0)
    with running_at(POSITIONS, IDS.shape[1], [block]):
        output = block(inputs)
    chosen = torch.zeros(IDS.shape, dtype=torch.bool)
    chosen[torch.arange(2)[:, None], POSITIONS] = True
    assert torch.equal(output, torch.where(chosen[..., None], 7.0, 0.0).expand(output.shape))
    assert block._compiled_call_impl is compiled
