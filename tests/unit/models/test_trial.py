"""The trial at loading: what cannot be followed is refused, by what it cannot be used for."""

import copy

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertLMHeadModel,
    DeepseekV32Config,
    DeepseekV32ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    ModernBertDecoderConfig,
    ModernBertDecoderForCausalLM,
)
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

from helpers.attributions import build
from helpers.evaluations import distances
from helpers.families import network as network_of
from helpers.random_models import EAGER, SMALL, VOCABULARY, twins
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.models.attention import ATTENTION_NAME, AttentionRecorder
from pisoft.models.model import LanguageModel

IDS = torch.randint(0, VOCABULARY, (2, 14), generator=torch.Generator().manual_seed(0))
TYPES = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5}
CAPPED = (Gemma2Config, Gemma2ForCausalLM, {
    **SMALL, **TYPES, "head_dim": 8, "query_pre_attn_scalar": 8,
    "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0,
})  # fmt: skip
WITH_SINKS = (GptOssConfig, GptOssForCausalLM, {
    **SMALL, **TYPES, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2,
})  # fmt: skip
HYBRID = (Lfm2Config, Lfm2ForCausalLM, {
    **SMALL, "layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False,
})  # fmt: skip
WINDOWED = (MistralConfig, MistralForCausalLM, {**SMALL, "sliding_window": 4096})
SPARSE = (DeepseekV32Config, DeepseekV32ForCausalLM, {
    **SMALL, "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_group": 1, "topk_group": 1, "moe_intermediate_size": 24, "n_shared_experts": 1,
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
    "v_head_dim": 6, "index_topk": 4, "index_n_heads": 2, "index_head_dim": 8,
})  # fmt: skip


# The head is named `decoder`.
NAMED_HEAD = (ModernBertDecoderConfig, ModernBertDecoderForCausalLM, {
    **SMALL, "local_attention": 8, "pad_token_id": 0,
})  # fmt: skip


def network(kind, attention, dtype=torch.float64):
    """Build a network of random weights, sharper than the default, so that attention varies."""
    config_class, model_class, options = kind
    torch.manual_seed(3)
    config = config_class(**copy.deepcopy(options))
    built = model_class._from_config(
        config, attn_implementation=attention, experts_implementation="eager"
    )
    for name, parameter in built.named_parameters():
        parameter.data = parameter.data * 4 if parameter.dim() > 1 else parameter.data
        if "sinks" in name:
            parameter.data.normal_()
    return built.to(dtype).eval()


@pytest.mark.parametrize("kind", [CAPPED, WITH_SINKS], ids=["soft-capping", "sinks"])
def test_caps_and_sinks_are_followed_in_logits_and_in_the_recorded_attention(kind):
    plain = network(kind, "eager")
    model = LanguageModel(network(kind, ATTENTION_NAME), "toy")
    expected = plain(IDS, output_attentions=True)
    for by_maps in (False, True):
        recorder = AttentionRecorder(layers=range(model.layers), by_maps=by_maps)
        hidden = model.hidden_states(model.embed(IDS), probe=recorder)
        torch.testing.assert_close(model.logits(hidden), expected.logits, **EAGER)
        for layer in range(model.layers):
            maps = recorder.inputs[layer].probabilities()
            torch.testing.assert_close(maps, expected.attentions[layer], **EAGER)
    below_one = (maps.sum(dim=-1) < 0.99).any()
    assert below_one == (kind is WITH_SINKS)


def test_a_head_that_is_named_decoder_is_none():
    model = LanguageModel(network(NAMED_HEAD, ATTENTION_NAME), "toy")
    expected = network(NAMED_HEAD, "eager")(IDS).logits
    torch.testing.assert_close(
        model.logits(model.hidden_states(model.embed(IDS))), expected, **EAGER
    )
    model.require("fixed routing", "test")


@torch.no_grad()
@pytest.mark.parametrize("family", ["Gemma 3n, text", "Gemma 4 E, text"])
def test_an_ablated_token_is_not_read_in_any_layer_either(family):
    built = network_of(family, ATTENTION_NAME)
    model = LanguageModel(built, "toy")
    embeddings = model.embed(torch.tensor([[5, 7, 9], [5, 3, 9]]))
    assert not torch.equal(*model.hidden_states(embeddings)[:, 2])
    embeddings[:, 1] = 0
    torch.testing.assert_close(*model.hidden_states(embeddings)[:, 2], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [CAPPED, WITH_SINKS], ids=["soft-capping", "sinks"])
def test_caps_and_sinks_are_followed_whatever_the_type(kind, dtype):
    model = LanguageModel(network(kind, ATTENTION_NAME, dtype), "toy")
    model.require("attention", "test")
    model.require("fixed routing", "test")


@torch.no_grad()
def test_attention_arguments_that_are_not_known_cost_the_attention_only():
    """DeepSeek-V3.2 hands its attention the keys to look at, and no mask, unless it is eager."""
    model = LanguageModel(network(SPARSE, ATTENTION_NAME), "toy")
    with pytest.raises(BenchmarkError, match=r"attention is given 'indices', which cannot be"):
        model.require("fixed routing", "test")
    expected = network(SPARSE, "eager")(IDS).logits[:, -1:]
    logits = model.next_token_logits(model.embed(IDS), torch.tensor([[13], [13]]))
    torch.testing.assert_close(logits, expected, **EAGER)
    assert model.shareable(5, 14) == 0, "a prefix was not tried beyond the keys that are chosen"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_attention_that_is_off_by_a_percent_is_noticed_whatever_the_type(dtype):
    built = twins("llama-gqa", dtype)[0].network

    def scaled(module, _, output):
        ours = built.config._attn_implementation == ATTENTION_NAME
        return (output[0] * (1.01 if ours else 1), *output[1:])

    built.model.layers[1].self_attn.register_forward_hook(scaled)
    model = LanguageModel(built, "toy")
    assert built.config._attn_implementation == "eager"
    with pytest.raises(BenchmarkError, match=r"class Llama.* its logits are 0\.0\d+ of the"):
        model.require("attention", "test")


def test_16_bit_weights_are_as_they_were():
    built = twins("llama-gqa", torch.bfloat16)[0].network
    before = {name: value.clone() for name, value in built.state_dict().items()}
    LanguageModel(built, "toy")
    for name, value in built.state_dict().items():
        assert value.dtype == torch.bfloat16
        assert torch.equal(value, before[name])


def test_what_comes_before_the_decoder_is_noticed():
    built = twins("llama-gqa")[0].network

    class Scaled(type(built)):
        def forward(self, inputs_embeds=None, input_ids=None, **options):
            if input_ids is not None:
                inputs_embeds = self.get_input_embeddings()(input_ids)
            return super().forward(inputs_embeds=inputs_embeds.roll(1, dims=-1), **options)

    built.__class__ = Scaled
    with pytest.raises(BenchmarkError, match="class Scaled cannot be followed: its logits are"):
        LanguageModel(built, "toy")


def test_what_comes_behind_the_head_is_part_of_the_logits():
    model, plain = twins("llama-gqa")

    class Scaled(type(model.network)):
        def forward(self, *args, **options):
            output = super().forward(*args, **options)
            output.logits = output.logits * 3
            return output

    model.network.__class__ = Scaled
    found = LanguageModel(model.network, "toy")
    logits = found.next_token_logits(found.embed(IDS), torch.tensor([[3], [13]]))[:, 0]
    torch.testing.assert_close(logits, 3 * plain(IDS).logits[[0, 1], [3, 13]], **EAGER)


def test_layers_that_drop_the_probe_cost_the_attention_only():
    built = twins("llama-gqa")[0].network
    for layer in built.model.layers:
        layer.forward = lambda *args, own=layer.forward, probe=None, **options: own(
            *args, **options
        )
    model = LanguageModel(built, "toy")
    with pytest.raises(BenchmarkError, match=r"^protocol 'fixed': model 'toy' \(class LlamaFor.*do "
                       r"not pass the probe on"):  # fmt: skip
        Perturber(model, 100, "fixed")
    Perturber(model, 100, "dynamic")
    for name in ("attention", "attention_rollout", "grad_ellm", "value_zeroing"):
        with pytest.raises(BenchmarkError, match=f"^method '{name}': model 'toy' .* the probe on"):
            build(name).check(model)
    build("saliency").check(model)


def test_layers_without_attention_are_named():
    model = LanguageModel(network(HYBRID, ATTENTION_NAME), "toy")
    with pytest.raises(BenchmarkError, match=r"not every layer has attention .*\(not so: 0\)"):
        Perturber(model, 100, "fixed")


@torch.no_grad()
def test_a_prefix_is_not_shared_where_more_than_keys_and_values_is_kept_of_it():
    """A convolution remembers tokens beside them."""
    model, plain = LanguageModel(network(HYBRID, ATTENTION_NAME), "toy"), network(HYBRID, "eager")
    assert model.shareable(5, 14) == 0
    target = PerturbationTarget(IDS[0].tolist(), np.array([5, 9]), 0)
    inputs = model.embed(IDS[:1]).repeat(2, 1, 1)
    inputs[1, 5] = 0
    clean, perturbed = plain(inputs_embeds=inputs).logits[:, -1].softmax(-1)
    (found,) = distances(model, target, np.array([[False, True]]))
    assert found == pytest.approx(float((1 - (clean * perturbed).sqrt().sum()).sqrt()), abs=1e-6)


def test_a_window_that_is_longer_than_the_trial_is_tried(monkeypatch):
    built = network(WINDOWED, ATTENTION_NAME)
    LanguageModel(built, "toy")
    assert built.config.sliding_window == 4096

    def causal(*given, mask_function, **named):
        return sdpa_mask(*given, **named)

    monkeypatch.setitem(ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, ATTENTION_NAME, causal)
    model = LanguageModel(built, "toy")
    with pytest.raises(BenchmarkError, match=": its logits are"):
        model.require("attention", "test")


def test_hidden_tokens_that_leave_no_gap_are_refused():
    """BLOOM counts the tokens that are seen."""
    model = LanguageModel(network_of("BLOOM", "eager"), "toy")
    with pytest.raises(BenchmarkError, match=r"operator 'hide': .* leave no gap"):
        Perturber(model, 100, operator="hide")


def test_attention_that_cannot_be_held_is_refused(monkeypatch):
    """A replay that computes attention anew must not pass for one."""
    monkeypatch.setattr(
        "pisoft.models.attention.AttentionReplay.__call__",
        lambda _, inputs, default: inputs.weighted_values(inputs.probabilities()),
    )
    model = LanguageModel(twins("llama-gqa")[0].network, "toy")
    model.require("attention", "test")
    with pytest.raises(BenchmarkError, match="with its attention held, it answers as with"):
        model.require("fixed routing", "test")


def test_a_model_that_reads_ahead_is_refused():
    """BERT, unless it is made a decoder: its answers at one step would depend on later steps."""
    options = {**SMALL, "pad_token_id": 0}
    del options["num_key_value_heads"]
    kind = BertConfig, BertLMHeadModel, options
    with pytest.raises(BenchmarkError, match=r"BertLM.* of a token depends on those behind it"):
        LanguageModel(network(kind, ATTENTION_NAME), "toy")


def test_layers_that_cannot_be_found_cost_value_zeroing_only():
    options = {**SMALL, "pad_token_id": 0, "is_decoder": True}
    del options["num_key_value_heads"]
    model = LanguageModel(network((BertConfig, BertLMHeadModel, options), ATTENTION_NAME), "toy")
    model.require("fixed routing", "test")
    with pytest.raises(BenchmarkError, match=r"^method 'value_zeroing': model 'toy': its decoder"):
        build("value_zeroing").check(model)


def test_an_exception_of_the_class_is_one_line():
    built = twins("llama-gqa")[0].network

    def broken(*_):
        raise KeyError("first\nsecond")

    built.model.layers[0].mlp.register_forward_hook(broken)
    with pytest.raises(BenchmarkError, match=r"cannot be followed: KeyError: .*$") as caught:
        LanguageModel(built, "toy")
    assert "\n" not in str(caught.value)
