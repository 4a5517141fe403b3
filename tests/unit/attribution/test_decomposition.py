"""DePass's components and their sum; layers that no decomposition or projection fits."""

from functools import partial

import pytest
import torch
from torch.nn import LayerNorm, Linear, RMSNorm, Sequential
from torch.nn.functional import rms_norm

from helpers.attributions import attribute, build
from helpers.families import network
from helpers.random_models import model_and_network, random_model, samples
from pisoft.errors import BenchmarkError
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.components import ComponentForward
from pisoft.models.flow import attention_writes
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


@pytest.mark.parametrize(
    ("method", "family", "message"),
    [
        ("depass", "Llama 4", "are not Llama's: layer 0 has no mlp"),
        ("depass", "OPT", "layer 0 has no self_attn.o_proj, post_attention_layernorm, mlp"),
        (
            "depass",
            "Phi 3, 4",
            "^method 'depass': model 'Phi 3, 4': its hidden states cannot be decomposed: layer 0 "
            "has no self_attn.v_proj, mlp.gate_proj, mlp.up_proj, mlp.act_fn",
        ),
    ],
)
def test_a_refusal_names_the_modules_that_a_layer_lacks(method, family, message):
    model = LanguageModel(network(family, ATTENTION_NAME), family)
    with pytest.raises(BenchmarkError, match=f"{message}$"):
        build(method).check(model)


def gate(_, __, named, output):
    return output[0] * named["hidden_states"], *output[1:]


@pytest.mark.parametrize("change", ["gated", "centred", "added beside the feed-forward block"])
def test_attention_that_enters_the_residual_stream_in_another_form_is_refused(change):
    if change.startswith("added"):
        model = LanguageModel(network("Phi 1, 2", ATTENTION_NAME), "llama-gqa")
    else:
        model = random_model("llama-gqa")
        attention = model.blocks[0].self_attn
        if change == "gated":
            attention.register_forward_hook(gate, with_kwargs=True)
        else:
            norm = LayerNorm(32, dtype=torch.float64)
            attention.o_proj = Sequential(attention.o_proj, norm)
    expected = (
        r"^method 'ifr': model 'llama-gqa': decoder layer 0 \(\w+\): what attention gives does"
    )
    with pytest.raises(BenchmarkError, match=expected):
        build("ifr").check(model)


def test_a_norm_behind_the_projection_scales_what_it_gives():
    model = random_model("llama-gqa", layers=1)
    norm = RMSNorm(32, dtype=torch.float64)
    torch.nn.init.uniform_(norm.weight)
    (shares,) = attribute("ifr", model, samples()[:1])
    attention = model.blocks[0].self_attn
    attention.o_proj = Sequential(attention.o_proj, norm)
    (write,) = attention_writes(model)
    assert (write.project, write.norm, write.scale) == (attention.o_proj[0], norm, 1)
    (normed,) = attribute("ifr", model, samples()[:1])
    assert not torch.allclose(shares, normed)
    assert float(normed[0].sum()) == pytest.approx(1)


def test_feed_forward_blocks_that_do_something_else_are_refused():
    model = random_model("llama-gqa")
    model.blocks[1].mlp.register_forward_hook(lambda _, __, output: 2 * output)
    with pytest.raises(BenchmarkError, match=r"decomposed: components do not sum to them$"):
        build("depass").check(model)


@pytest.mark.parametrize(
    ("part", "replacement", "message"),
    [
        ("q_proj", None, "no self_attn with linear q_proj, k_proj, v_proj and o_proj"),
        ("q_proj", Linear(32, 64), "widths .*: 64, 16, 16 and 32: the output must be as wide"),
        ("o_proj", Linear(64, 32), "widths .*: 32, 16, 16 and 32: the output must be as wide"),
        ("k_proj", Linear(32, 8), "widths .*: 32, 8, 16 and 32"),
    ],
)
def test_other_projections_are_refused_by_name(part, replacement, message):
    model, _ = model_and_network("llama-gqa")
    setattr(model.blocks[1].self_attn, part, replacement)
    build("grad_ellm_inseq").check(model)  # the last layer is as it was
    expected = f"^method 'grad_ellm_inseq': model 'llama-gqa': layer 1: {message}"
    with pytest.raises(BenchmarkError, match=expected):
        build("grad_ellm_inseq", layers=2).check(model)
