"""Value zeroing: precision, layers unlike Llama's, and unsupported models."""

import pytest
import torch

from helpers import eager_reference
from helpers.attributions import attribute, build
from helpers.random_models import EAGER, VOCABULARY, random_model, samples
from pisoft.errors import BenchmarkError
from pisoft.models.model import ExplainedSample

RAW = {"threshold": 0, "normalise_layers": False, "final_norm": False}


def by_zeroing(model, sample, **options):
    """Return the scores of a sample's first step, one value vector zeroed at a time."""
    model.network.set_attn_implementation(eager_reference.NAME)
    return eager_reference.value_zeroing(model.network, sample.prompt_ids, 0, **options)


def test_the_final_norm_changes_scores():
    scores = []
    for final_norm in (True, False):
        model = random_model("llama-gqa")
        model.decoder.norm.weight.data[::2] *= 4
        options = RAW | {"layers": 1, "final_norm": final_norm}
        scores += attribute("value_zeroing", model, samples()[1:2], **options)
        expected = by_zeroing(model, samples()[1], **options)
        torch.testing.assert_close(scores[-1][0], expected, **EAGER)
    assert not torch.allclose(*scores, rtol=0.05)


def test_scores_include_changes_a_layer_makes_to_its_output():
    model = random_model("llama-gqa")
    for layer in model.decoder.layers:
        layer.register_forward_hook(lambda _, given, output: output * 1.5 - given[0] / 4)
    (scores,) = attribute("value_zeroing", model, samples()[1:2])
    torch.testing.assert_close(scores[0], by_zeroing(model, samples()[1]), **EAGER)


def test_a_layer_below_the_threshold_adds_nothing():
    (scores, *_) = attribute("value_zeroing", random_model("llama-gqa"), samples(), threshold=1.99)
    assert torch.equal(scores, torch.zeros_like(scores))


def test_nonfinite_distances_stay_nonfinite():
    model = random_model("llama-gqa")
    model.decoder.layers[1].mlp.down_proj.weight.data[0] = torch.nan
    (scores,) = attribute("value_zeroing", model, samples()[:1])
    assert scores.isnan().all()


@pytest.mark.parametrize("options", [{}, RAW], ids=["default", "raw"])
def test_float32_scores_are_precise(options):
    one = samples()[:1]
    (exact,) = attribute("value_zeroing", random_model("llama-gqa"), one, **options)
    (single,) = attribute("value_zeroing", random_model("llama-gqa", torch.float32), one, **options)
    torch.testing.assert_close(single.double(), exact, rtol=1e-3, atol=0)


@pytest.mark.parametrize("shape", ["llama-gqa", "llama-mha-tied"])
def test_small_distances_survive_16_bit_weights(shape):
    """One of a hundred tokens changes the output by little more than bfloat16 resolves."""
    rounded, exact = random_model(shape, torch.bfloat16), random_model(shape)
    exact.network.load_state_dict(rounded.network.state_dict())
    ids = torch.randint(3, VOCABULARY, (100,), generator=torch.Generator().manual_seed(0)).tolist()
    chosen = [ExplainedSample("long", ids, [9], [0], [9])]
    (made,), (expected,) = (attribute("value_zeroing", m, chosen, **RAW) for m in (rounded, exact))
    torch.testing.assert_close(made.double(), expected, rtol=0.03, atol=0)


def test_layers_that_mix_positions_after_attention_are_refused():
    model = random_model("llama-gqa")
    for layer in model.decoder.layers:
        layer.mlp.register_forward_hook(lambda _, __, output: output + output.roll(1, dims=1))
    expected = r"'llama-gqa': its decoder layers \(LlamaDecoderLayer\) do not let .* in layer 0"
    with pytest.raises(BenchmarkError, match=expected):
        build("value_zeroing").check(model)


def test_a_decoder_with_steps_after_the_final_norm_is_refused():
    model = random_model("llama-gqa")

    def scaled(_, __, output):
        output.last_hidden_state = output.last_hidden_state * 1.5
        return output

    model.decoder.register_forward_hook(scaled)
    with pytest.raises(BenchmarkError, match=r"'value_zeroing': .* followed by more than a norm"):
        build("value_zeroing").check(model)
    build("value_zeroing", final_norm=False).check(model)
