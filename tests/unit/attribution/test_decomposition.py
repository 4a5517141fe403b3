"""DePass components sum to the hidden states; unsupported layers and projections are refused."""

from functools import partial

import pytest
import torch
from torch.nn import LayerNorm, Linear, RMSNorm, Sequential
from torch.nn.functional import rms_norm

from helpers.attributions import attribute, build
from helpers.families import network
from helpers.random_models import model_and_network, random_model, samples
from pisoft.errors import BenchmarkError
from pisoft.models import components
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.components import ComponentForward
from pisoft.models.flow import attention_writes
from pisoft.models.model import LanguageModel

BIASED = ("Qwen 2, 2.5", "GPT-2", "Phi 1, 2")


@pytest.mark.parametrize("family", [*BIASED, "Gemma", "SmolLM 3", "Mixtral"])
def test_components_sum_to_the_hidden_states(family):
    model = LanguageModel(network(family, ATTENTION_NAME), family)
    for norm in (part for part in model.decoder.modules() if "RMSNorm" in type(part).__name__):
        weight = norm.weight + (1 if family == "Gemma" else 0)  # transformers' is in float32
        norm.forward = partial(rms_norm, normalized_shape=weight.shape, weight=weight, eps=1e-6)
    ids = torch.randint(model.vocabulary_size, (1, 20), generator=torch.manual_seed(4))
    parts, hidden = ComponentForward(model).components(ids, torch.arange(20), 50)
    torch.testing.assert_close(parts.sum(dim=1), hidden, rtol=1e-9, atol=1e-9)
    assert parts[:, 0].any() == (family in BIASED)


@pytest.mark.parametrize(
    ("method", "family", "message"),
    [
        ("ifr", "Gemma 3n, text", "its decoder layers have more than one residual stream"),
        (
            "depass",
            "gpt-oss",
            r"decomposed: decoder layer 0 \(\w+\) has no activation .* rules need",
        ),
        (
            "depass",
            "Gemma 4 E, text",
            r"decomposed: decoder layer 0 \(\w+\) uses its GELUTanh in another form than .*",
        ),
    ],
)
def test_refusals_name_the_unsupported_operation(method, family, message):
    model = LanguageModel(network(family, ATTENTION_NAME), family)
    with pytest.raises(BenchmarkError, match=f"^method '{method}': model '{family}': .*{message}$"):
        build(method).check(model)


def test_neurons_mistaken_for_constants_are_detected(monkeypatch):
    monkeypatch.setattr(components, "_storages", lambda _: {0})  # as if all shared storage
    with pytest.raises(BenchmarkError, match=r"decomposed: there is a part that no token has$"):
        build("depass").check(random_model("llama-gqa"))


@pytest.mark.parametrize("experts", ["grouped_mm", "batched_mm"])
def test_components_do_not_depend_on_the_token_order_of_experts(experts):
    model = LanguageModel(network("Mixtral", ATTENTION_NAME).float(), "Mixtral")
    (one_by_one,) = attribute("depass", model, samples()[:1])
    model.network.set_experts_implementation(experts)
    (scores,) = attribute("depass", model, samples()[:1])
    torch.testing.assert_close(scores, one_by_one)
    assert model.network.config._experts_implementation == experts


def gate(_, __, named, output):
    return output[0] * named["hidden_states"], *output[1:]


@pytest.mark.parametrize("change", ["gated", "centred"])
def test_attention_changed_before_the_residual_stream_is_refused(change):
    model = random_model("llama-gqa")
    attention = model.blocks[0].self_attn
    if change == "gated":
        attention.register_forward_hook(gate, with_kwargs=True)
    else:
        norm = LayerNorm(32, dtype=torch.float64)
        attention.o_proj = Sequential(attention.o_proj, norm)
    expected = (
        r"^method 'ifr': model 'llama-gqa': decoder layer 0 \(\w+\): the output of attention does"
    )
    with pytest.raises(BenchmarkError, match=expected):
        build("ifr").check(model)


def test_a_norm_after_the_projection_scales_its_output():
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


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("", "components do not sum to them"),
        ("mlp.gate_proj", "what enters neurons is not the sum of its components"),
        ("mlp", r"decoder layer 2 \(LlamaDecoderLayer\) uses its SiLU\w+ in another form than .*"),
    ],
)
def test_layers_with_nonlinear_outputs_are_refused(part, message):
    model = random_model("llama-gqa")
    bent = model.blocks[2].get_submodule(part)
    bent.register_forward_hook(lambda _, __, output: output + output.square())
    with pytest.raises(BenchmarkError, match=f"decomposed: {message}$"):
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
def test_unsupported_projections_are_refused_by_name(part, replacement, message):
    model, _ = model_and_network("llama-gqa")
    setattr(model.blocks[1].self_attn, part, replacement)
    build("grad_ellm_inseq").check(model)  # the last layer is unchanged
    expected = f"^method 'grad_ellm_inseq': model 'llama-gqa': layer 1: {message}"
    with pytest.raises(BenchmarkError, match=expected):
        build("grad_ellm_inseq", layers=2).check(model)
