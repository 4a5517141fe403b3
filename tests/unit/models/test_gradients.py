"""Gradient methods against autograd on an unpatched eager model, one forward per step."""

import pytest
import torch

from helpers.random_models import EAGER, SHAPES, samples, twins
from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.models.model import Batch

REDUCE = {
    "saliency": lambda embeddings, gradients: gradients.norm(dim=-1),
    "input_x_gradient": lambda embeddings, gradients: (embeddings * gradients).norm(dim=-1),
}


def reference(plain, sample, step, target, function):
    ids = torch.tensor([[*sample.prompt_ids, *sample.output_ids[:step]]])
    embeddings = plain.get_input_embeddings()(ids).detach().requires_grad_(True)
    logits = plain(inputs_embeds=embeddings).logits[0, -1]
    value = logits[target] if function == "logit" else logits.softmax(-1)[target]
    value.backward()
    count = len(sample.prompt_ids)
    return embeddings.detach()[0, :count], embeddings.grad[0, :count]


@pytest.mark.parametrize("function", ["probability", "logit"])
@pytest.mark.parametrize("method", REDUCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_equal_autograd_step_by_step(shape, method, function):
    model, plain = twins(shape)
    method_class = load_method(method)
    options = method_class.Options(attributed_function=function)
    scores = method_class(options, Context(seed=0)).attribute(model, Batch(samples(), model.device))
    for sample, found in zip(samples(), scores, strict=True):
        for row, (step, target) in enumerate(zip(sample.steps, sample.target_ids, strict=True)):
            expected = REDUCE[method](*reference(plain, sample, step, target, function))
            torch.testing.assert_close(found[row], expected, **EAGER)


@pytest.mark.parametrize("shape", SHAPES)
def test_attention_equals_the_eager_models_last_layer(shape):
    model, plain = twins(shape)
    method = load_method("attention")
    scores = method(method.Options(), Context(seed=0)).attribute(
        model, Batch(samples(), model.device)
    )
    for sample, found in zip(samples(), scores, strict=True):
        for row, step in enumerate(sample.steps):
            ids = torch.tensor([[*sample.prompt_ids, *sample.output_ids[:step]]])
            last = plain(ids, output_attentions=True).attentions[-1]
            expected = last[0, :, -1, : len(sample.prompt_ids)].mean(0)
            torch.testing.assert_close(found[row], expected, **EAGER)
