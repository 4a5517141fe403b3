"""Attention with rounding, prefixes and padding; its maps are tested with the methods."""

from functools import partial

import pytest
import torch

from helpers.random_models import SHAPES, VOCABULARY, random_model, samples
from pisoft.errors import BenchmarkError
from pisoft.models import attention
from pisoft.models.attention import AttentionInputs, AttentionRecorder, probed_attention
from pisoft.models.model import Batch

LENGTH = 12


@pytest.fixture(params=SHAPES)
def model(request):
    return random_model(request.param)


def test_attention_maps_in_16_bits_are_rounded_only_after_the_softmax():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, LENGTH, 8, generator=generator).bfloat16() for _ in range(2))
    exact, rounded = (
        AttentionInputs(None, query.to(dtype), key.to(dtype), key, mask=None, scaling=3.0)
        for dtype in (torch.float64, torch.bfloat16)
    )
    assert torch.equal(rounded.probabilities(), exact.probabilities().bfloat16())


def test_sparse_attention_sees_only_the_chosen_keys():
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, LENGTH, 8, generator=generator) for _ in range(3))
    chosen = torch.stack([torch.randperm(LENGTH, generator=generator)[:5] for _ in range(LENGTH)])
    causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    chosen[:, 0] = torch.arange(LENGTH)  # so that each position sees a key
    given = partial(probed_attention, None, query, key, value, indices=chosen[None])
    output, _ = given(causal[None, None])
    for row, keys in enumerate(chosen.tolist()):
        seen = sorted({one for one in keys if one <= row})
        weights = (query[0, :, row, None] * key[0, :, seen]).sum(-1).div(8**0.5).softmax(-1)
        expected = (weights[..., None] * value[0, :, seen]).sum(1)
        torch.testing.assert_close(output[0, row], expected)
    with pytest.raises(BenchmarkError, match="given 'indices', which cannot be followed"):
        given(None)


@pytest.mark.parametrize("fused", [(), ("cpu",)], ids=["masked", "fused"])
@pytest.mark.parametrize("length", [1, 5, 11])
def test_a_shared_prefix_gives_the_same_hidden_states(model, length, fused, monkeypatch):
    ids = torch.randint(VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(0))
    embeddings = model.embed(ids)
    whole = model.hidden_states(embeddings)
    monkeypatch.setattr(attention, "FUSED", fused)
    prefix = model.read_prefix(embeddings[:, :length])
    for probe in (None, AttentionRecorder(range(99), by_maps=True)):  # the cache must not grow
        repeated = embeddings[:, length:].repeat(3, 1, 1)
        rest = model.hidden_states(repeated, prefix=prefix, probe=probe)
        torch.testing.assert_close(rest, whole[:, length:].expand(3, -1, -1))


def test_fused_kernels_are_used_only_without_hidden_keys(model, monkeypatch):
    embeddings = model.embed(torch.arange(LENGTH)[None])
    prefix = model.read_prefix(embeddings[:, :5])
    seen = torch.ones(1, LENGTH, dtype=torch.long)
    seen[:, [2, 6]] = 0
    options = {"attention_mask": seen, "position_ids": torch.arange(5, LENGTH)[None]}
    masked = model.hidden_states(embeddings[:, 5:], prefix=prefix, **options)
    monkeypatch.setattr(attention, "FUSED", ("cpu",))
    assert torch.equal(masked, model.hidden_states(embeddings[:, 5:], prefix=prefix, **options))


def test_attention_maps_after_a_prefix_are_rows_of_the_full_map():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, 2, length, 8, generator=generator) for length in (5, LENGTH))
    inputs = AttentionInputs(None, query, key, key, mask=None, scaling=1.0)
    positions = torch.tensor([[0, 3], [4, 1]])
    expected = torch.stack([inputs.probabilities()[row][:, at] for row, at in enumerate(positions)])
    torch.testing.assert_close(inputs.rows(positions).probabilities(), expected)


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
