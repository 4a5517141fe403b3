"""The trial at loading rejects unsupported models, for the uses they do not support."""

import pytest
import torch
from transformers import BertConfig, BertLMHeadModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

from helpers.attributions import build
from helpers.families import network
from helpers.random_models import EAGER, SMALL, VOCABULARY, model_and_network, random_model
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import Perturber
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import LanguageModel

IDS = torch.randint(0, VOCABULARY, (2, 14), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", ["Gemma 2", "gpt-oss", "ModernBERT decoder"])
def test_caps_sinks_and_heads_named_decoder_are_supported_in_any_dtype(family, dtype):
    model = LanguageModel(network(family, ATTENTION_NAME, dtype), "toy")
    model.require("attention", "test")
    model.require("fixed routing", "test")


@torch.no_grad()
@pytest.mark.parametrize("family", ["Gemma 3n, text", "Gemma 4 E, text"])
def test_an_ablated_token_is_not_read_by_any_layer(family):
    built = network(family, ATTENTION_NAME)
    model = LanguageModel(built, "toy")
    embeddings = model.embed(torch.tensor([[5, 7, 9], [5, 3, 9]]))
    assert not torch.equal(*model.hidden_states(embeddings)[:, 2])
    embeddings[:, 1] = 0
    torch.testing.assert_close(*model.hidden_states(embeddings)[:, 2], rtol=0, atol=0)


@torch.no_grad()
def test_unknown_attention_arguments_disable_only_attention_access():
    built = random_model("llama-gqa").network
    for layer in built.model.layers:
        layer.self_attn.register_forward_pre_hook(
            lambda _, given, named: (given, named | {"biases": torch.ones(1)}), with_kwargs=True
        )
    model = LanguageModel(built, "toy")
    with pytest.raises(BenchmarkError, match=r"attention is given 'biases', which cannot be"):
        model.require("fixed routing", "test")
    expected = built(IDS).logits[:, -1:]
    logits = model.next_token_logits(model.embed(IDS), torch.tensor([[13], [13]]))
    torch.testing.assert_close(logits, expected, **EAGER)
    assert model.shareable(5, 14) == 0, "prefixes need visible attention"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_attention_off_by_one_percent_is_detected_in_any_dtype(dtype):
    built = random_model("llama-gqa", dtype).network

    def scaled(module, _, output):
        ours = built.config._attn_implementation == ATTENTION_NAME
        return (output[0] * (1.01 if ours else 1), *output[1:])

    built.model.layers[1].self_attn.register_forward_hook(scaled)
    model = LanguageModel(built, "toy")
    assert built.config._attn_implementation == "eager"
    with pytest.raises(BenchmarkError, match=r"class Llama.* differ from .* by 0\.0\d+ of the"):
        model.require("attention", "test")


def test_the_trial_leaves_16_bit_weights_unchanged():
    built = random_model("llama-gqa", torch.bfloat16).network
    before = {name: value.clone() for name, value in built.state_dict().items()}
    LanguageModel(built, "toy")
    for name, value in built.state_dict().items():
        assert value.dtype == torch.bfloat16
        assert torch.equal(value, before[name])


def test_computations_before_the_decoder_are_detected():
    built = random_model("llama-gqa").network

    class Scaled(type(built)):
        def forward(self, inputs_embeds=None, input_ids=None, **options):
            if input_ids is not None:
                inputs_embeds = self.get_input_embeddings()(input_ids)
            return super().forward(inputs_embeds=inputs_embeds.roll(1, dims=-1), **options)

    built.__class__ = Scaled
    with pytest.raises(BenchmarkError, match="class Scaled cannot be followed: its logits differ"):
        LanguageModel(built, "toy")


def test_logits_include_computations_after_the_head():
    model, plain = model_and_network("llama-gqa")

    class Scaled(type(model.network)):
        def forward(self, *args, **options):
            output = super().forward(*args, **options)
            output.logits = output.logits * 3
            return output

    model.network.__class__ = Scaled
    scaled = LanguageModel(model.network, "toy")
    logits = scaled.next_token_logits(scaled.embed(IDS), torch.tensor([[3], [13]]))[:, 0]
    torch.testing.assert_close(logits, 3 * plain(IDS).logits[[0, 1], [3, 13]], **EAGER)


def test_layers_that_drop_the_probe_lose_only_attention_access():
    built = random_model("llama-gqa").network
    for layer in built.model.layers:
        layer.forward = lambda *args, forward=layer.forward, probe=None, **options: forward(
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


def test_a_window_longer_than_the_trial_is_tried(monkeypatch):
    built = network("Mistral v0.1", ATTENTION_NAME)
    built.config.sliding_window = 4096
    LanguageModel(built, "toy").require("attention", "test")
    assert built.config.sliding_window == 4096

    def causal(*given, mask_function, **named):
        return sdpa_mask(*given, **named)

    monkeypatch.setitem(ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, ATTENTION_NAME, causal)
    with pytest.raises(BenchmarkError, match=": its logits differ"):
        LanguageModel(built, "toy").require("attention", "test")


def test_models_that_renumber_positions_cannot_hide_tokens():
    """BLOOM numbers positions by visible tokens."""
    model = LanguageModel(network("BLOOM", "eager"), "toy")
    with pytest.raises(BenchmarkError, match=r"operator 'hide': .* leave no gap"):
        Perturber(model, 100, operator="hide")


def test_attention_that_cannot_be_fixed_is_refused(monkeypatch):
    """A replay that recomputes attention must not pass the trial."""
    monkeypatch.setattr(
        "pisoft.models.attention.AttentionReplay.__call__",
        lambda _, inputs, default: inputs.weighted_values(inputs.probabilities()),
    )
    model = LanguageModel(random_model("llama-gqa").network, "toy")
    model.require("attention", "test")
    with pytest.raises(BenchmarkError, match="with its attention held, it answers as with"):
        model.require("fixed routing", "test")


def bert(**options):
    options |= {"pad_token_id": 0, "num_key_value_heads": SMALL["num_attention_heads"]}
    config = BertConfig(**SMALL | options)
    torch.manual_seed(3)
    return BertLMHeadModel._from_config(config, attn_implementation=ATTENTION_NAME).double().eval()


def test_a_model_that_reads_ahead_is_refused():
    """For example BERT outside decoder mode: one step's answers would depend on later steps."""
    with pytest.raises(BenchmarkError, match=r"BertLM.* at a token depends on later tokens"):
        LanguageModel(bert(), "toy")
    model = LanguageModel(bert(is_decoder=True), "toy")
    model.require("fixed routing", "test")
    with pytest.raises(BenchmarkError, match=r"^method 'value_zeroing': model 'toy': its decoder"):
        build("value_zeroing").check(model)


def test_an_exception_of_the_model_class_gives_one_line():
    built = random_model("llama-gqa").network

    def broken(*_):
        raise KeyError("first\nsecond")

    built.model.layers[0].mlp.register_forward_hook(broken)
    with pytest.raises(BenchmarkError, match=r"cannot be followed: KeyError: .*$") as caught:
        LanguageModel(built, "toy")
    assert "\n" not in str(caught.value)


@torch.no_grad()
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_without_finite_logits_are_refused_at_loading(value):
    built = random_model("llama-gqa").network
    built.model.norm.weight[3] = value
    with pytest.raises(BenchmarkError, match="none of its logits is finite: its weights may hold"):
        LanguageModel(built, "toy")
