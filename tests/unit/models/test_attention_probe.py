"""What attention does with rounding, prefixes and padding; its maps are tested with the methods."""

import pytest
import torch

from helpers.random_models import SHAPES, VOCABULARY, samples, twins
from pisoft.models.attention import AttentionInputs
from pisoft.models.model import Batch

LENGTH = 12


@pytest.fixture(params=SHAPES)
def model(request):
    return twins(request.param)[0]


def test_attention_maps_of_16_bits_are_rounded_after_the_softmax_only():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, LENGTH, 8, generator=generator).bfloat16() for _ in range(2))
    exact, rounded = (
        AttentionInputs(None, query.to(dtype), key.to(dtype), key, mask=None, scaling=3.0)
        for dtype in (torch.float64, torch.bfloat16)
    )
    assert torch.equal(rounded.probabilities(), exact.probabilities().bfloat16())


@pytest.mark.parametrize("length", [1, 5, 11])
def test_a_shared_prefix_gives_the_same_hidden_states(model, length):
    ids = torch.randint(VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(0))
    embeddings = model.embed(ids)
    whole = model.hidden_states(embeddings)
    prefix = model.read_prefix(embeddings[:, :length])
    for _ in range(2):  # the cache must not grow
        rest = model.hidden_states(embeddings[:, length:].repeat(3, 1, 1), prefix=prefix)
        torch.testing.assert_close(rest, whole[:, length:].expand(3, -1, -1))


def test_left_padding_right_padding_and_none_agree(model):
    batch = Batch(samples()[:3], model.device)
    right = model.logits_at(model.hidden_states(model.embed(batch.input_ids)), batch.positions)
    width = batch.input_ids.shape[1]
    for row, sample in enumerate(batch.samples):
        ids = torch.tensor([sample.read_ids])
        alone = model.logits(model.hidden_states(model.embed(ids)))[0, batch.positions[row]]
        torch.testing.assert_close(right[row], alone)
        pad = width - ids.shape[1]
        left = torch.nn.functional.pad(ids, (pad, 0))
        mask = torch.nn.functional.pad(torch.ones_like(ids), (pad, 0))
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        hidden = model.hidden_states(model.embed(left), attention_mask=mask, position_ids=positions)
        torch.testing.assert_close(model.logits(hidden)[0, batch.positions[row] + pad], alone)
