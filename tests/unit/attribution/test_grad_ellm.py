"""Grad-ELLM against a plain implementation with hooks on an unpatched model."""

import itertools

import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.errors import BenchmarkError
from pisoft.lm.model import Batch
from random_models import EAGER, SHAPES, samples, twins

OPTIONS = [
    dict(zip(("layers", "token_weights", "heads"), values, strict=True))
    for values in itertools.product((1, 2, None), ("loosened", "original"), ("merged", "per_head"))
]


def plain_grad_ellm(plain, sample, step, target, options):
    """Paper Eq. 5, written sample by sample, layer by layer, head by head."""
    ids = torch.tensor([[*sample.prompt_ids, *sample.output_ids[:step]]])
    inputs, outputs = {}, {}
    for index, layer in enumerate(plain.model.layers):
        attention = layer.self_attn
        attention.register_forward_pre_hook(
            lambda _, args, kwargs, index=index: inputs.__setitem__(index, kwargs), with_kwargs=True
        )

        def keep(_, args, index=index):
            args[0].retain_grad()
            outputs[index] = args[0]

        attention.o_proj.register_forward_pre_hook(keep)
    result = plain(ids, output_attentions=True)
    result.logits[0, -1, target].backward()
    layers = len(plain.model.layers)
    count, heads, width = len(sample.prompt_ids), 4, 8
    total = torch.zeros(count, dtype=torch.float64)
    for index in range(layers - (options["layers"] or layers), layers):
        attention, given = plain.model.layers[index].self_attn, inputs[index]
        shape = (1, ids.shape[1], -1, width)
        states = given["hidden_states"]
        query = attention.q_proj(states).view(shape).transpose(1, 2)
        key = attention.k_proj(states).view(shape).transpose(1, 2)
        value = attention.v_proj(states).view(shape).transpose(1, 2)
        query, key = apply_rotary_pos_emb(query, key, *given["position_embeddings"])
        group = heads // key.shape[1]
        weights = outputs[index].grad[0, -1].view(heads, width)
        products = torch.zeros(heads, count, dtype=torch.float64)
        sums = torch.zeros(heads, count, dtype=torch.float64)
        for head, token in itertools.product(range(heads), range(count)):
            products[head, token] = query[0, head, -1] @ key[0, head // group, token]
            sums[head, token] = weights[head] @ value[0, head // group, token]
        softmax = result.attentions[index][0, :, -1, :count]
        if options["heads"] == "merged":
            lam = products.sum(0) if options["token_weights"] == "loosened" else softmax.mean(0)
            lam, sums = lam[None], sums.sum(0)[None]
        else:
            lam = products if options["token_weights"] == "loosened" else softmax
        if options["token_weights"] == "loosened":
            low, high = lam.min(1, keepdim=True)[0], lam.max(1, keepdim=True)[0]
            lam = (lam - low) / (high - low) if count > 1 else torch.ones_like(lam)
        total += torch.relu(sums * lam).sum(0)
    return total.detach()


@pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda options: "-".join(map(str, options.values()))
)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_plain_implementation(shape, options):
    model, _ = twins(shape)
    method = load_method("grad_ellm")
    scores = method(method.Options(**options), Context(seed=0)).attribute(
        model, Batch(samples(), model.device)
    )
    for sample, found in zip(samples(), scores, strict=True):
        if len(set(sample.prompt_ids)) == 1 and len(sample.prompt_ids) > 1:
            continue  # equal tokens make λ a quotient of rounding errors in both
        for row, (step, target) in enumerate(zip(sample.steps, sample.target_ids, strict=True)):
            expected = plain_grad_ellm(twins(shape)[1], sample, step, target, options)
            torch.testing.assert_close(found[row], expected, **EAGER)


def test_more_layers_than_the_model_has_are_refused():
    model, _ = twins("llama-gqa")
    method = load_method("grad_ellm")
    with pytest.raises(BenchmarkError, match=r"layers: 4 is more than the 3 decoder layers"):
        method(method.Options(layers=4), Context(seed=0)).check(model)


def test_layers_that_are_clipped_are_all_layers():
    model, _ = twins("llama-gqa")
    method = load_method("grad_ellm")
    found = []
    for options in ({"layers": 4, "clip_layers": True}, {}, {"layers": 2, "clip_layers": True}):
        built = method(method.Options(**options), Context(seed=0))
        built.check(model)
        found.append(torch.cat(built.attribute(model, Batch(samples()[:1], model.device))))
    clipped, every, fewer = found
    assert torch.equal(clipped, every)
    assert not torch.equal(fewer, every)
