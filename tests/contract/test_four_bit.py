"""Every method and both protocols on a 4-bit model, compared with its dequantised weights."""

import copy

import numpy as np
import pytest
import torch
from bitsandbytes.functional import dequantize_4bit
from transformers import LlamaConfig, LlamaForCausalLM

from helpers.attributions import attribute, build
from helpers.evaluations import distances
from helpers.loaded_models import local_model
from helpers.random_models import SMALL, VOCABULARY, samples
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.attribution import available_methods, load_method
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import PerturbationTarget
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.layers import checkpointed_layers
from pisoft.models.loading import load_model
from pisoft.models.model import LanguageModel

pytestmark = pytest.mark.slow


# 4-bit blocks hold 64 weights, so widths must be multiples of 64.
METHODS = available_methods()
MODIFYING = [name for name in METHODS if load_method(name).modifies_backward]
CONFIG = LlamaConfig(**SMALL | {"hidden_size": 64, "intermediate_size": 128})


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A 4-bit model as the workflow loads it, and one with the same weights in float32."""
    return loaded(tmp_path_factory.mktemp("four-bit"), "float32")


def loaded(folder, dtype):
    torch.manual_seed(0)
    network = LlamaForCausalLM(copy.deepcopy(CONFIG))
    for parameter in network.parameters():  # sharper than the default, so that scores vary
        parameter.data.mul_(4 if parameter.dim() > 1 else 1)
    network.save_pretrained(folder)
    numbered_tokenizer(VOCABULARY).save_pretrained(folder)
    settings = local_model(dtype=dtype, quantization="nf4")
    four_bit = load_model(settings, folder)
    exact = LlamaForCausalLM._from_config(copy.deepcopy(CONFIG), attn_implementation=ATTENTION_NAME)
    exact.load_state_dict(network.to(getattr(torch, dtype)).state_dict())
    replaced = 0
    for name, module in four_bit.network.named_modules():
        if type(module).__name__ == "Linear4bit":
            weight = module.weight
            state = copy.copy(weight.quant_state)
            state.dtype = torch.float32  # dtype of dequantised weights
            exact.get_submodule(name).weight.data = dequantize_4bit(weight.data, state)
            replaced += 1
    assert replaced == 2 * 7, "seven 4-bit projections in each of two layers"
    return four_bit, LanguageModel(exact, "dequantised", lambda: numbered_tokenizer(VOCABULARY))


@pytest.mark.parametrize("name", [name for name in METHODS if name not in MODIFYING])
def test_scores_match_the_dequantised_weights(name, models):
    four_bit, exact = (attribute(name, model, samples()) for model in models)
    for scores, expected in zip(four_bit, exact, strict=True):
        torch.testing.assert_close(
            scores.float(), expected.float(), rtol=2e-3, atol=2e-3 * float(expected.abs().max())
        )


@pytest.mark.follows("set quantization: nf4")
def test_saved_4_bit_weights_load_unchanged(models, tmp_path):
    models[0].network.save_pretrained(tmp_path)
    numbered_tokenizer(VOCABULARY).save_pretrained(tmp_path)
    with pytest.raises(BenchmarkError, match="; set quantization: nf4"):
        load_model(local_model(), tmp_path)
    saved = load_model(local_model(quantization="nf4"), tmp_path)
    for first, second in zip(
        *(attribute("saliency", m, samples()) for m in (models[0], saved)), strict=True
    ):
        assert torch.equal(first, second)


@pytest.mark.parametrize("name", MODIFYING)
def test_a_modified_backward_pass_is_refused_in_one_line(name, models):
    with pytest.raises(BenchmarkError, match=f"method '{name}': model '.*': its weights are quant"):
        build(name).check(models[0])


@pytest.mark.parametrize("name", ["saliency", "grad_ellm"])
def test_recomputed_layers_give_identical_scores(name, models):
    four_bit, _ = models
    expected = attribute(name, four_bit, samples())
    with checkpointed_layers(four_bit):
        recomputed = attribute(name, four_bit, samples())
    assert all(torch.equal(a, b) for a, b in zip(recomputed, expected, strict=True))


@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
def test_draws_match_the_dequantised_weights(protocol, models):
    target = PerturbationTarget([1, 40, 41, 8, 9, 10, 33, 60], np.array([2, 3, 5, 6]), 5)
    masks = np.random.default_rng(0).random((12, 4)) < 0.5
    four_bit, exact = (distances(model, target, masks, 30, protocol) for model in models)
    np.testing.assert_allclose(four_bit, exact, rtol=2e-3, atol=2e-3 * exact.max())


@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
def test_16_bit_activations_can_be_computed_in_float32(protocol, tmp_path):
    target = PerturbationTarget([1, 40, 41, 8, 9, 10, 33, 60], np.array([2, 3, 5, 6]), 5)
    masks = np.random.default_rng(0).random((12, 4)) < 0.5
    four_bit, exact = loaded(tmp_path, "bfloat16")
    half = distances(four_bit, target, masks, 30, protocol)
    with four_bit.in_float32():
        in_float32 = distances(four_bit, target, masks, 30, protocol)
    expected = distances(exact, target, masks, 30, protocol)
    np.testing.assert_allclose(in_float32, expected, rtol=2e-3, atol=2e-3 * expected.max())
    assert np.abs(half - expected).max() > 10 * np.abs(in_float32 - expected).max()
    assert np.array_equal(distances(four_bit, target, masks, 30, protocol), half)


def test_quantisation_changes_the_weights(models):
    """Otherwise the comparisons above would prove nothing."""
    four_bit, exact = models
    (projection,) = exact.decoder.layers[0].self_attn.q_proj.parameters()
    assert len(projection[0, :64].unique()) <= 16  # 4 bits per block of 64 weights
    assert four_bit.network.is_loaded_in_4bit
