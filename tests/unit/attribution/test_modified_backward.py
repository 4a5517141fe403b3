"""Modified backward passes against eager ones with each rule applied by hand, in float64."""

import re
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from helpers.attributions import attribute, build
from helpers.eager_reference import NAME
from helpers.families import network
from helpers.modified_backward_reference import MODIFIED
from helpers.quick_cases import one_quick
from helpers.random_models import VOCABULARY, random_model, samples
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.errors import BenchmarkError
from pisoft.models import modified_backward
from pisoft.models.attention import ATTENTION_NAME, attention_output
from pisoft.models.gradients import embedding_gradients
from pisoft.models.layers import checkpointed_layers
from pisoft.models.model import Batch, ExplainedSample, LanguageModel
from pisoft.models.modified_backward import (
    BackwardRules,
    ModifiedBackward,
    scaled_gradient,
    tempered_softmax,
)

METHODS = ("attn_lrp", "cp_lrp", "gim")
IDS, TARGET = [1, 40, 41, 8, 9, 10, 33], 17
SAMPLE = ExplainedSample("sample", IDS, [TARGET], [0], [TARGET])


def model_of(family, dtype=torch.float64):
    load_tokenizer = partial(numbered_tokenizer, VOCABULARY)
    return LanguageModel(network(family, ATTENTION_NAME, dtype), family, load_tokenizer)


def close(scores, expected, tolerance=1e-6):
    """Compare by the largest score: norms of transformers are in float32 in any model."""
    largest = float(expected.abs().max())
    torch.testing.assert_close(scores, expected, rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize(
    "family", ["Llama 2, 3", "Qwen 3", "Mixtral", "Granite SWA", "OPT", "Cohere 2"]
)
@pytest.mark.parametrize("name", METHODS)
def test_every_operation_follows_its_rule(name, family):
    """Also experts, sinks, biases and other norms."""
    model, eager = model_of(family), network(family, NAME)
    expected = MODIFIED[name](eager, IDS, TARGET)
    close(attribute(name, model, [SAMPLE])[0][0], expected)


@pytest.mark.parametrize("family", one_quick(["Llama 2, 3", "Qwen 3", "Mistral v0.1", "Gemma"]))
def test_cp_lrp_without_biases_sums_to_the_logit(family):
    model = model_of(family)
    logits = model.next_token_logits(model.embed(torch.tensor([IDS])), torch.tensor([[6]]))
    (scores,) = attribute("cp_lrp", model, [SAMPLE])
    assert float(scores.sum()) == pytest.approx(float(logits[0, 0, TARGET]), rel=1e-5)


@pytest.mark.parametrize("family", ["Llama 2, 3", "GPT-2"])
def test_without_rules_gradients_equal_the_models(family):
    model = model_of(family)
    batch = Batch([SAMPLE], model.device)
    (expected,) = embedding_gradients(model, batch, "logit")
    with ModifiedBackward(model).applied(BackwardRules()) as probe:
        (gradients,) = embedding_gradients(model, batch, "logit", probe=probe)
    torch.testing.assert_close(gradients, expected, rtol=1e-12, atol=1e-12)


def test_gim_differentiates_softmax_at_its_temperature_without_a_factor():
    scores = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    towards = torch.randn(3, 5, dtype=torch.float64)
    map_ = tempered_softmax(2, scores, -1)
    (gradients,) = torch.autograd.grad((map_ * towards).sum(), scores)
    assert torch.equal(map_, scores.softmax(-1))
    s = (scores / 2).softmax(-1)
    torch.testing.assert_close(gradients, s * (towards - (towards * s).sum(-1, keepdim=True)))


def test_gim_uses_a_space_as_baseline_or_else_the_reference_token():
    model, eager = model_of("Llama 2, 3"), network("Llama 2, 3", NAME)
    close(attribute("gim", model, [SAMPLE])[0][0], MODIFIED["gim"](eager, IDS, TARGET))
    bare = {"encode": lambda text, add_special_tokens: [], "pad_token_id": None}
    ids = {"unk_token_id": model.tokenizer.unk_token_id, "eos_token_id": IDS[1]}
    model.tokenizer = SimpleNamespace(**bare, **ids)  # the end token is compared like any other
    close(attribute("gim", model, [SAMPLE])[0][0], MODIFIED["gim"](eager, IDS, TARGET))
    ids_of_space = {" ": [9, 3]}
    model.tokenizer = SimpleNamespace(encode=lambda text, add_special_tokens: ids_of_space[text])
    expected = MODIFIED["gim"](eager, IDS, TARGET, baseline=9)
    close(attribute("gim", model, [SAMPLE])[0][0], expected)
    model.tokenizer = SimpleNamespace(**bare, unk_token_id=None, eos_token_id=None)
    with pytest.raises(BenchmarkError, match=r"no unknown, .*, which method 'gim' needs in place"):
        attribute("gim", model, [SAMPLE])


def hooks_of(model):
    return sum(
        len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.network.modules()
    )


@pytest.mark.parametrize("name", METHODS)
def test_hooks_are_removed_even_after_an_exception(name):
    model = random_model("llama-gqa")
    plain = model.hidden_states(model.embed(torch.tensor([IDS])))
    method = build(name)
    method.check(model)
    outside = ExplainedSample("outside", IDS, [TARGET], [0], [VOCABULARY])
    with pytest.raises((IndexError, RuntimeError)):
        method.attribute(model, Batch([outside], model.device))
    assert hooks_of(model) == 0
    assert not any(weight.requires_grad for weight in model.network.parameters())
    assert torch.equal(model.hidden_states(model.embed(torch.tensor([IDS]))), plain)


def test_models_with_checkpointed_layers_are_tried_too():
    model = model_of("Gemma 2", torch.bfloat16)
    with checkpointed_layers(model):
        attribute("attn_lrp", model, samples())


@pytest.mark.parametrize(
    ("family", "problem"),
    [
        ("gpt-oss", "decoder layer 0 (GptOssDecoderLayer) has no activation module"),
        ("Gemma 4 E, text", "decoder layer 0 (Gemma4TextDecoderLayer) uses its GELUTanh in"),
    ],
)
def test_unsupported_models_are_refused_by_name(family, problem):
    model = model_of(family)
    message = f"method 'cp_lrp': model '{family}': its backward pass cannot be"
    with pytest.raises(BenchmarkError, match=f"^{message}.*{re.escape(problem)}"):
        build("cp_lrp").check(model)
    assert hooks_of(model) == 0


class CubedNorm(torch.nn.Module):
    """Ignores its input's magnitude without dividing by it."""

    def forward(self, x):
        return (x / x.norm(dim=-1, keepdim=True)) ** 3


class SquaredUp(torch.nn.Module):
    """A feed-forward block that is nonlinear beyond its gate."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.act_fn = [inner], inner.act_fn

    def forward(self, x):
        (inner,) = self.inner
        return inner.down_proj(self.act_fn(inner.gate_proj(x)) * inner.up_proj(x).square())


class Bent(torch.nn.Module):
    """A projection followed by a nonlinearity."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).exp()


@pytest.mark.parametrize(
    ("part", "make", "problem"),
    [
        ("input_layernorm", lambda _: CubedNorm(), "norm CubedNorm is neither RMSNorm nor "),
        (
            "mlp",
            SquaredUp,
            "1 (LlamaDecoderLayer) uses its SiLUActivation in another form than act(x)",
        ),
        ("self_attn.v_proj", Bent, "decoder layer 1 (LlamaDecoderLayer) computes more than norms,"),
    ],
)
def test_modules_with_other_computations_are_refused_by_name(part, make, problem):
    model = random_model("llama-gqa")
    layer = model.blocks[1]
    layer.set_submodule(part, make(layer.get_submodule(part)))
    with pytest.raises(BenchmarkError, match=re.escape(problem)):
        ModifiedBackward(model)


def test_attention_with_wrong_gradients_is_refused(monkeypatch):
    def halved(inputs):
        return scaled_gradient(attention_output(inputs), 0.5)

    monkeypatch.setattr(modified_backward, "attention_output", halved)
    with pytest.raises(BenchmarkError, match="with all rules off does not have its own gradients"):
        ModifiedBackward(random_model("llama-gqa"))
