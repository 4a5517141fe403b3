"""Information flow routes and FlashTrace against every part subtracted by itself, in float64."""

import pytest
import torch

from helpers import eager_reference
from helpers.attributions import attribute, build
from helpers.families import network
from helpers.quick_cases import one_quick
from helpers.random_models import SHAPES, samples, twins, with_biases
from pisoft.errors import BenchmarkError
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import LanguageModel

EXACT = {"rtol": 1e-5, "atol": 1e-6}  # eager attention takes its softmax in float32


@pytest.mark.parametrize("budget", [64, 10**6])
@pytest.mark.parametrize("shape", one_quick(SHAPES))
@pytest.mark.parametrize("method", ["flashtrace", "ifr"])
def test_equals_each_part_subtracted_by_itself(method, shape, budget):
    model = with_biases(twins(shape)[0])
    scores = attribute(method, model, samples(), token_budget=budget)
    by_hand = eager_reference.rows(eager_reference.BY_HAND[method], model, samples())
    for found, expected in zip(scores, by_hand, strict=True):
        torch.testing.assert_close(found, expected, **EXACT)


def test_routes_lead_to_the_tokens_read():
    long, *others = attribute("ifr", twins("llama-gqa")[0], samples())
    assert long[0].sum() == pytest.approx(1, abs=1e-12)
    assert long[1].sum() < 0.99, "the rest is that of generated tokens"
    assert all(scores.sum() == pytest.approx(1, abs=1e-12) for scores in others)


@pytest.mark.parametrize("method", ["flashtrace", "ifr"])
def test_layers_of_another_form_are_refused(method):
    model = twins("llama-gqa")[0]
    for layer in model.decoder.layers:
        layer.register_forward_hook(lambda _, given, output: output * 1.5 - given[0] / 4)
    expected = rf"^method '{method}': model 'llama-gqa': its decoder layers \(LlamaDecoderLayer\)"
    with pytest.raises(BenchmarkError, match=expected):
        build(method).check(model)


@pytest.mark.parametrize(
    ("family", "missing"),
    [("Llama 4", "mlp"), ("OPT", "self_attn.o_proj, post_attention_layernorm, mlp")],
)
def test_a_refusal_names_the_modules_that_a_layer_lacks(family, missing):
    model = LanguageModel(network(family, ATTENTION_NAME), family)
    with pytest.raises(BenchmarkError, match=rf"are not Llama's: layer 0 has no {missing}$"):
        build("ifr").check(model)
