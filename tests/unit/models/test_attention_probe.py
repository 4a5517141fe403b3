"""The attention probe against an unpatched eager model."""

import pytest
import torch

from helpers.random_models import EAGER, SHAPES, VOCABULARY, samples, twins
from pisoft.models.attention import AttentionInputs, AttentionRecorder, AttentionReplay
from pisoft.models.model import Batch

LENGTH = 12


@pytest.fixture(params=SHAPES)
def models(request):
    return twins(request.param)


@pytest.fixture
def ids():
    return torch.randint(0, VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(0))


def test_recorded_probabilities_and_outputs_equal_eager(models, ids):
    model, plain = models
    seen = {}
    for index, layer in enumerate(plain.model.layers):
        layer.self_attn.o_proj.register_forward_pre_hook(
            lambda _, args, index=index: seen.__setitem__(index, args[0])
        )
    expected = plain(ids, output_attentions=True)
    recorder = AttentionRecorder(layers=range(model.layers), by_maps=True)
    hidden = model.hidden_states(model.embed(ids), probe=recorder)
    torch.testing.assert_close(model.logits(hidden), expected.logits, **EAGER)
    for layer in range(model.layers):
        torch.testing.assert_close(
            recorder.inputs[layer].probabilities(), expected.attentions[layer], **EAGER
        )
        torch.testing.assert_close(recorder.outputs[layer].flatten(2), seen[layer], **EAGER)


def test_attention_maps_of_16_bits_are_rounded_after_the_softmax_only():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, LENGTH, 8, generator=generator).bfloat16() for _ in range(2))
    exact, rounded = (
        AttentionInputs(None, query.to(dtype), key.to(dtype), key, mask=None, scaling=3.0)
        for dtype in (torch.float64, torch.bfloat16)
    )
    assert torch.equal(rounded.probabilities(), exact.probabilities().bfloat16())


def test_rows_equal_rows_of_the_whole_map(models, ids):
    model, plain = models
    attentions = plain(ids, output_attentions=True).attentions
    recorder = AttentionRecorder(layers=range(model.layers))
    model.hidden_states(model.embed(ids), probe=recorder)
    positions = torch.tensor([[0, 4], [11, 7]])
    for layer in range(model.layers):
        rows = recorder.inputs[layer].rows(positions).probabilities()
        for sample in range(2):
            torch.testing.assert_close(
                rows[sample], attentions[layer][sample][:, positions[sample]], **EAGER
            )


def test_gradients_of_recorded_outputs_equal_eager(models, ids):
    model, plain = models
    recorder = AttentionRecorder(layers=range(model.layers), detach_at=0)
    logits = model.logits(model.hidden_states(model.embed(ids), probe=recorder))
    outputs = [recorder.outputs[layer] for layer in range(model.layers)]
    gradients = torch.autograd.grad(logits[:, -1, 5].sum(), outputs)
    kept = []

    def keep(_, args):
        args[0].retain_grad()
        kept.append(args[0])

    for layer in plain.model.layers:
        layer.self_attn.o_proj.register_forward_pre_hook(keep)
    plain(ids).logits[:, -1, 5].sum().backward()
    for gradient, output in zip(gradients, kept, strict=True):
        torch.testing.assert_close(gradient.flatten(2), output.grad, **EAGER)


def test_replay_on_the_clean_input_changes_nothing(models, ids):
    model, _ = models
    recorder = AttentionRecorder(layers=range(model.layers), by_maps=True)
    clean = model.hidden_states(model.embed(ids), probe=recorder)
    again = model.hidden_states(
        model.embed(ids), probe=AttentionReplay([(slice(None), recorder.inputs)])
    )
    assert torch.equal(clean, again)


def test_replay_ignores_perturbed_queries_and_keys(models, ids):
    """With the routing fixed, the first layer's output is linear in the values."""
    model, _ = models
    recorder = AttentionRecorder(layers=range(model.layers), by_maps=True)
    model.hidden_states(model.embed(ids), probe=recorder)
    other = torch.randn(2, LENGTH, 32, dtype=torch.float64)
    seen = AttentionRecorder(layers=range(model.layers))

    class Both(AttentionReplay):
        def __call__(self, inputs, default):
            return seen(inputs, super().__call__(inputs, default))

    model.hidden_states(other, probe=Both([(slice(None), recorder.inputs)]))
    value = seen.inputs[0].per_query_head(seen.inputs[0].value)
    expected = (recorder.inputs[0].probabilities() @ value).transpose(1, 2)
    torch.testing.assert_close(seen.outputs[0], expected, **EAGER)


@pytest.mark.parametrize("length", [1, 5, 11])
def test_a_shared_prefix_gives_the_same_hidden_states(models, ids, length):
    model, _ = models
    embeddings = model.embed(ids[:1])
    whole = model.hidden_states(embeddings)
    prefix = model.read_prefix(embeddings[:, :length])
    for _ in range(2):  # the cache must not grow
        rest = model.hidden_states(embeddings[:, length:].repeat(3, 1, 1), prefix=prefix)
        torch.testing.assert_close(rest, whole[:, length:].expand(3, -1, -1))


def test_left_padding_right_padding_and_none_agree(models):
    model, _ = models
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
