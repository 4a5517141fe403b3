"""DePass: components against each one followed by itself, in float64, and their sums."""

from functools import partial

import pytest
import torch
from torch.nn.functional import rms_norm

from helpers.attributions import build
from helpers.families import network
from helpers.random_models import twins
from pisoft.errors import BenchmarkError
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.components import ComponentForward
from pisoft.models.model import LanguageModel


@pytest.mark.parametrize("family", ["Qwen 2, 2.5", "Gemma", "SmolLM 3"])
def test_components_sum_to_the_hidden_states(family):
    model = LanguageModel(network(family, ATTENTION_NAME), family)
    for norm in (part for part in model.decoder.modules() if "RMSNorm" in type(part).__name__):
        weight = norm.weight + (1 if family == "Gemma" else 0)  # transformers' is in float32
        norm.forward = partial(rms_norm, normalized_shape=weight.shape, weight=weight, eps=1e-6)
    ids = torch.randint(model.vocabulary_size, (1, 20), generator=torch.manual_seed(4))
    components, hidden = ComponentForward(model).components(ids, torch.arange(20), 50)
    torch.testing.assert_close(components.sum(dim=1), hidden, rtol=1e-9, atol=1e-9)
    assert components[:, 0].any() == (family == "Qwen 2, 2.5"), "biases are not left out"


def test_a_refusal_names_the_modules_that_a_layer_lacks():
    model = LanguageModel(network("Phi 3, 4", ATTENTION_NAME), "phi")
    expected = (
        r"^method 'depass': model 'phi': its hidden states cannot be decomposed: layer 0 has no "
        r"self_attn\.v_proj, mlp\.gate_proj, mlp\.up_proj, mlp\.act_fn$"
    )
    with pytest.raises(BenchmarkError, match=expected):
        build("depass").check(model)


def test_feed_forward_blocks_that_do_something_else_are_refused():
    model = twins("llama-gqa")[0]
    model.blocks[1].mlp.register_forward_hook(lambda _, __, output: 2 * output)
    with pytest.raises(BenchmarkError, match=r"decomposed: components do not sum to them$"):
        build("depass").check(model)
