"""Information flow routes and FlashTrace against every part subtracted by itself, in float64."""

import pytest

from helpers.attributions import build
from helpers.families import network
from helpers.random_models import twins
from pisoft.errors import BenchmarkError
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import LanguageModel


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
