"""Gradients, path integrals, DeepLIFT and rollout against independent computations."""

import copy
from dataclasses import replace

import pytest
import torch
from captum.attr import DeepLift, IntegratedGradients
from captum.attr._core.deep_lift import SUPPORTED_NON_LINEAR

from helpers.attributions import attribute, build
from helpers.quick_cases import each_value_quick
from helpers.random_models import (
    EAGER,
    SHAPES,
    VOCABULARY,
    model_and_network,
    random_model,
    samples,
)
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.attribution.deeplift import RESCALED
from pisoft.errors import BenchmarkError
from pisoft.models.model import LanguageModel
from pisoft.seeds import keyed_generator

FOIL = 33
REDUCE = {
    "saliency": lambda embeddings, gradients: gradients.norm(dim=-1),
    "input_x_gradient": lambda embeddings, gradients: (embeddings * gradients).norm(dim=-1),
}


def explained(plain, function="probability"):
    """Yield sample index, row, prompt length, embeddings, baseline and explained quantity.

    The last is a function of embeddings (B, T, d), (B,).
    """
    table = plain.get_input_embeddings().weight.detach()
    for index, sample in enumerate(samples()):
        for row, (step, target) in enumerate(zip(sample.steps, sample.target_ids, strict=True)):
            ids = torch.tensor([*sample.prompt_ids, *sample.output_ids[:step]])
            baseline = table[torch.where(ids == 2, ids, 0)]

            def value(embeddings, target=target):
                logits = plain(inputs_embeds=embeddings).logits[:, -1]
                if function == "contrast":
                    return logits[:, target] - logits[:, FOIL]
                return (logits if function == "logit" else logits.softmax(dim=-1))[:, target]

            yield index, row, len(sample.prompt_ids), table[ids], baseline, value


def contrasted():
    """Return the samples, each step contrasted with one token."""
    return [replace(one, foil_ids=[FOIL] * len(one.steps)) for one in samples()]


@pytest.mark.parametrize("function", ["probability", "logit", "contrast"])
@pytest.mark.parametrize("method", REDUCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_equal_autograd_step_by_step(shape, method, function):
    model, plain = model_and_network(shape)
    if function == "contrast":
        scores = attribute(method, model, contrasted())
    else:
        scores = attribute(method, model, samples(), attributed_function=function)
    for index, row, prompt, x, _, value in explained(plain, function):
        inputs = x.clone().requires_grad_(True)
        (gradients,) = torch.autograd.grad(value(inputs[None]).sum(), inputs)
        expected = REDUCE[method](x, gradients)[:prompt]
        torch.testing.assert_close(scores[index][row], expected, **EAGER)


@pytest.mark.parametrize(
    ("shape", "options"),
    each_value_quick(SHAPES, [{}, {"internal_batch_size": 3}, {"contrast": True}]),
)
def test_integrated_gradients_equal_captum(shape, options):
    model, plain = model_and_network(shape)
    contrast = options.pop("contrast", False)
    chosen = contrasted() if contrast else samples()
    scores = attribute("integrated_gradients", model, chosen, **options)
    of = explained(plain, "contrast" if contrast else "probability")
    for index, row, prompt, x, baseline, value in of:
        expected = IntegratedGradients(value).attribute(
            x[None], baseline[None], n_steps=options.get("steps", 16), method="gausslegendre"
        )
        torch.testing.assert_close(
            scores[index][row], expected[0, :prompt].norm(dim=-1).detach(), **EAGER
        )


@pytest.mark.parametrize("shape", ["llama-gqa", "llama-mha-tied"])
def test_a_float32_path_equals_that_of_a_float32_model(shape):
    half = random_model(shape, torch.bfloat16)
    before = [weight.clone() for weight in half.network.parameters()]
    whole = LanguageModel(
        copy.deepcopy(half.network).float(), "whole", lambda: numbered_tokenizer(VOCABULARY)
    )
    alone = samples()[:1]  # padding adds up in another order
    (expected,) = attribute("integrated_gradients", whole, alone)
    off = {}
    for dtype in ("model", "float32"):
        (scores,) = attribute("integrated_gradients", half, alone, path_dtype=dtype)
        off[dtype] = float((scores - expected).abs().max() / expected.max())
    assert off["float32"] < 1e-5
    assert off["model"] > 50 * off["float32"]
    after = [*half.network.parameters()]
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_deeplift_equals_captum(shape):
    model, plain = model_and_network(shape)
    scores = attribute("deeplift", model, samples())

    for index, row, prompt, x, baseline, probability in explained(plain):

        class Explained(torch.nn.Module):
            def __init__(self, inner=probability):
                super().__init__()
                self.plain, self.inner = plain, inner

            def forward(self, embeddings):
                return self.inner(embeddings)

        expected = DeepLift(Explained()).attribute(x[None], baseline[None])
        torch.testing.assert_close(
            scores[index][row], expected[0, :prompt].norm(dim=-1).detach(), **EAGER
        )


def test_deeplift_from_zero_is_input_times_gradient():
    model = random_model("llama-gqa")
    zero = attribute("deeplift", model, samples(), baseline="zero")
    for one, other in zip(zero, attribute("input_x_gradient", model, samples()), strict=True):
        torch.testing.assert_close(one, other)


def test_deeplift_lists_the_modules_that_captum_rescales():
    assert {kind.__name__ for kind in SUPPORTED_NON_LINEAR} == RESCALED


def test_deeplift_is_refused_on_models_with_modules_that_captum_rescales():
    model = random_model("llama-gqa")
    build("deeplift").check(model)
    model.decoder.layers[1].mlp.act_fn = torch.nn.ReLU()
    with pytest.raises(BenchmarkError, match=r"^method 'deeplift': .* rescales \(ReLU\); use"):
        build("deeplift").check(model)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_shap_is_the_mean_over_random_points(shape):
    model, plain = model_and_network(shape)
    scores = attribute("gradient_shap", model, samples(), draws=3)
    for index, row, prompt, x, baseline, probability in explained(plain):
        points = keyed_generator(1, "gradient_shap", samples()[index].sample_id).random(3)
        assert len(set(points)) == 3
        total = torch.zeros_like(x)
        for u in points:
            inside = (baseline + u * (x - baseline)).requires_grad_(True)
            total += torch.autograd.grad(probability(inside[None]).sum(), inside)[0] / 3
        expected = ((x - baseline) * total).norm(dim=-1)[:prompt]
        torch.testing.assert_close(scores[index][row], expected, **EAGER)
