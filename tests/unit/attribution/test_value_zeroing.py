"""Value zeroing against brute force: one forward per token, in float64."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from helpers.attributions import attribute, build
from helpers.quick_cases import each_value_quick
from helpers.random_models import SHAPES, VOCABULARY, samples, twins
from pisoft.errors import BenchmarkError
from pisoft.models.layers import CLOSED_FORM, OWN_FORWARD, layer_form
from pisoft.models.model import ExplainedSample

EXACT = {"rtol": 1e-10, "atol": 1e-10}
RAW = {"threshold": 0, "normalise_layers": False, "final_norm": False}
THRESHOLD = 0.02  # a good part of the distances of these models is below
OPTIONS = [
    {},
    {"threshold": THRESHOLD},
    {"normalise_layers": False},
    {"normalise_layers": False, "threshold": THRESHOLD},
    {"final_norm": False},
    {"layers": 1},
    {"layers": 2, "normalise_layers": False},
    RAW,
]


def layer_outputs(model, ids, final_norm, zeroed=None, layer=None):
    """Return every layer's output at the last position, one token's value zeroed in one layer.

    The last layer's output is taken behind the final norm if `final_norm`.
    """
    outputs, handles = [], []

    def zero(_, __, value):
        value = value.clone()
        value[:, zeroed] = 0
        return value

    def keep(_, __, output):
        outputs.append(output[0, -1])

    for index, block in enumerate(model.decoder.layers):
        if index == layer:
            handles.append(block.self_attn.v_proj.register_forward_hook(zero))
        if index + 1 < model.layers or not final_norm:
            handles.append(block.register_forward_hook(keep))
    with torch.no_grad():
        found = model.network.model(input_ids=torch.tensor([ids]))
    for handle in handles:
        handle.remove()
    return [*outputs, found.last_hidden_state[0, -1]] if final_norm else outputs


def distances_one_by_one(model, ids, final_norm=True):
    """Return cosine distances (layers, tokens) at the last position of a text."""
    clean = layer_outputs(model, ids, final_norm)
    distances = torch.empty(model.layers, len(ids), dtype=torch.float64)
    for layer in range(model.layers):
        for token in range(len(ids)):
            # layers behind the zeroed one are not looked at
            zeroed = layer_outputs(model, ids, final_norm, token, layer)[layer]
            distances[layer, token] = 1 - cosine_similarity(zeroed, clean[layer], dim=0)
    return distances


@pytest.mark.parametrize(("shape", "options"), each_value_quick(SHAPES, OPTIONS))
def test_equals_zeroing_one_value_vector_at_a_time(shape, options):
    model = twins(shape)[0]
    ruled_out = 0
    for sample, found in zip(
        samples(), attribute("value_zeroing", model, samples(), **options), strict=True
    ):
        for row, step in enumerate(sample.steps):
            ids = [*sample.prompt_ids, *sample.output_ids[:step]]
            layers = distances_one_by_one(model, ids, options.get("final_norm", True))
            layers = layers[-options.get("layers", model.layers) :]
            below = layers < options.get("threshold", 1e-5)
            ruled_out += below.sum()
            layers[below] = 0
            if options.get("normalise_layers", True):
                layers = torch.stack([one / (one.sum() or 1) for one in layers])
            expected = layers.mean(dim=0)[: len(sample.prompt_ids)]
            torch.testing.assert_close(found[row], expected, **EXACT)
    if options.get("threshold") == THRESHOLD:
        assert ruled_out > 5


def test_the_final_norm_is_not_without_effect():
    model = twins("llama-gqa")[0]
    model.decoder.norm.weight.data[::2] *= 4
    ids = samples()[0].prompt_ids
    one = [ExplainedSample("s", ids, [9], [0], [9])]
    for final_norm in (True, False):
        (found,) = attribute(
            "value_zeroing",
            model,
            one,
            layers=1,
            final_norm=final_norm,
            threshold=0,
            normalise_layers=False,
        )
        expected = distances_one_by_one(model, ids, final_norm)[-1]
        torch.testing.assert_close(found[0], expected, **EXACT)
    other = distances_one_by_one(model, ids, final_norm=True)[-1]
    assert not torch.allclose(other, expected, rtol=0.05)


def test_scores_are_shares_of_all_that_was_read():
    """Of prompt and generated tokens together."""
    long, *_ = samples()
    (scores,) = attribute("value_zeroing", twins("llama-gqa")[0], [long])
    first, later = scores.sum(dim=1).tolist()
    assert first == pytest.approx(1)
    assert 0 < later < 0.99


def test_a_layer_without_any_distance_adds_nothing():
    (scores, *_) = attribute("value_zeroing", twins("llama-gqa")[0], samples(), threshold=1.99)
    assert torch.equal(scores, torch.zeros_like(scores))


def test_distances_that_are_not_finite_stay_so():
    model = twins("llama-gqa")[0]
    model.decoder.layers[1].mlp.down_proj.weight.data[0] = torch.nan
    (scores,) = attribute("value_zeroing", model, samples()[:1])
    assert scores.isnan().all()


@pytest.mark.parametrize("options", [{}, RAW], ids=["default", "raw"])
def test_keeps_its_digits_in_float32(options):
    one = samples()[:1]
    (exact,) = attribute("value_zeroing", twins("llama-gqa")[0], one, **options)
    (single,) = attribute("value_zeroing", twins("llama-gqa", torch.float32)[0], one, **options)
    torch.testing.assert_close(single.double(), exact, rtol=1e-3, atol=0)


@pytest.mark.parametrize("shape", ["llama-gqa", "llama-mha-tied"])
def test_small_distances_are_not_lost_in_a_16_bit_model(shape):
    """One of a hundred tokens changes the output by little more than bfloat16 can tell."""
    rounded, exact = twins(shape, torch.bfloat16)[0], twins(shape)[0]
    exact.network.load_state_dict(rounded.network.state_dict())
    ids = torch.randint(3, VOCABULARY, (100,), generator=torch.Generator().manual_seed(0)).tolist()
    chosen = [ExplainedSample("long", ids, [9], [0], [9])]
    (found,), (expected,) = (attribute("value_zeroing", m, chosen, **RAW) for m in (rounded, exact))
    torch.testing.assert_close(found.double(), expected, rtol=0.03, atol=0)


@pytest.mark.parametrize("options", [{}, RAW], ids=["default", "raw"])
def test_layers_of_another_form_run_their_own_forward(options):
    """Equal to zeroing one value vector at a time, which the closed form would not be."""
    model = twins("llama-gqa")[0]
    for layer in model.decoder.layers:
        layer.register_forward_hook(lambda _, given, output: output * 1.5 - given[0] / 4)
    assert layer_form(model) is OWN_FORWARD
    long, *_ = samples()
    (found,) = attribute("value_zeroing", model, [long], **options)
    layers = distances_one_by_one(model, long.prompt_ids, options.get("final_norm", True))
    if not options:
        layers[layers < 1e-5] = 0
        layers = layers / layers.sum(dim=1, keepdim=True)
    torch.testing.assert_close(found[0], layers.mean(dim=0), **EXACT)


def test_the_closed_form_and_the_layers_own_forward_agree(monkeypatch):
    model = twins("mistral-sliding")[0]
    assert layer_form(model) is CLOSED_FORM
    closed = attribute("value_zeroing", model, samples())
    monkeypatch.setattr("pisoft.models.layers.layer_form", lambda _: OWN_FORWARD)
    for one, other in zip(closed, attribute("value_zeroing", model, samples()), strict=True):
        torch.testing.assert_close(one, other, **EXACT)


def test_layers_that_mix_positions_behind_attention_are_refused():
    model = twins("llama-gqa")[0]
    for layer in model.decoder.layers:
        layer.mlp.register_forward_hook(lambda _, __, output: output + output.roll(1, dims=1))
    expected = r"'llama-gqa': its decoder layers \(LlamaDecoderLayer\) do not let .* in layer 0"
    with pytest.raises(BenchmarkError, match=expected):
        build("value_zeroing").check(model)


def test_a_decoder_that_does_more_than_the_final_norm_is_refused():
    model = twins("llama-gqa")[0]

    def scaled(_, __, output):
        output.last_hidden_state = output.last_hidden_state * 1.5
        return output

    model.decoder.register_forward_hook(scaled)
    with pytest.raises(BenchmarkError, match=r"'value_zeroing': .* followed by more than a norm"):
        build("value_zeroing").check(model)
    build("value_zeroing", final_norm=False).check(model)
