"""Grad-ELLM against a plain implementation with hooks on an unpatched model."""

import itertools
from dataclasses import replace

import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from helpers.attributions import attribute
from helpers.quick_cases import each_value_quick
from helpers.random_models import EAGER, SHAPES, samples, twins
from pisoft.attribution import load_method
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError

OPTIONS = [
    dict(zip(("layers", "token_weights", "heads"), values, strict=True))
    for values in itertools.product((1, 2, None), ("loosened", "original"), ("merged", "per_head"))
]
READINGS = [
    dict(zip(("similarity", "normalise_over", "relu", "heads"), values, strict=True))
    for values in itertools.product(
        ("dot", "cosine"), ("prompt", "content"), ("layer", "sum"), ("merged", "per_head")
    )
] + [{"relu": "sum", "token_weights": "original", "heads": h} for h in ("merged", "per_head")]
DEFAULTS = load_method("grad_ellm").Options().model_dump()


def samples_with_content():
    """Return the samples; what comes from the record is their second half."""
    return [
        replace(sample, content_mask=[2 * place >= count - 1 for place in range(count)])
        for sample in samples()
        for count in [len(sample.prompt_ids)]
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
    logits = result.logits[0, -1]
    (logits[target] - sum(logits[foil] for foil in sample.foil_ids[:1])).backward()
    layers = len(plain.model.layers)
    count, heads, width = len(sample.prompt_ids), 4, 8
    total = torch.zeros(count, dtype=torch.float64)
    options = DEFAULTS | options
    chosen = sample.content_mask if options["normalise_over"] == "content" else [True] * count
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
        if options["similarity"] == "cosine":
            key = key.repeat_interleave(group, dim=1)[0, :, :count]  # (heads, count, width)
            lengths = key.norm(dim=-1)
            if options["heads"] == "merged":
                lengths = key.transpose(0, 1).flatten(start_dim=1).norm(dim=-1)
            products = products / lengths  # the query's length is the same for all tokens
        softmax = result.attentions[index][0, :, -1, :count]
        if options["heads"] == "merged":
            lam = products.sum(0) if options["token_weights"] == "loosened" else softmax.mean(0)
            lam, sums = lam[None], sums.sum(0)[None]
        else:
            lam = products if options["token_weights"] == "loosened" else softmax
        if options["token_weights"] == "loosened":
            seen = softmax[0] > 0  # zero outside a sliding window
            ranged = lam[:, seen & torch.tensor(chosen)]
            low, high = (f(ranged, 1, keepdim=True)[0] for f in (torch.min, torch.max))
            lam = (lam - low) / (high - low) if ranged.shape[1] > 1 else torch.ones_like(lam)
            lam = lam.clip(0, 1) * seen
        contributions = sums * lam
        if options["relu"] == "layer":
            contributions = torch.relu(contributions)
        total += contributions.sum(0)
    return torch.relu(total).detach()


@pytest.mark.parametrize(("shape", "options"), each_value_quick(SHAPES, OPTIONS + READINGS))
def test_equals_the_plain_implementation(shape, options):
    model, _ = twins(shape)
    chosen = samples_with_content()
    chosen += [replace(chosen[0], foil_ids=[33, 33])] if options.get("relu") == "sum" else []
    scores = [attribute("grad_ellm", model, [one], **options)[0] for one in chosen]
    for sample, found in zip(chosen, scores, strict=True):
        if len(set(sample.prompt_ids)) == 1 and len(sample.prompt_ids) > 1:
            continue  # equal tokens make λ a quotient of rounding errors in both
        for row, (step, target) in enumerate(zip(sample.steps, sample.target_ids, strict=True)):
            expected = plain_grad_ellm(twins(shape)[1], sample, step, target, options)
            torch.testing.assert_close(found[row], expected, **EAGER)


@pytest.mark.parametrize("options", [{}, {"heads": "per_head"}, {"similarity": "cosine"}], ids=str)
def test_tokens_outside_every_window_have_no_score(options):
    """The last position of the only layer that is summed sees the last seven of 13 tokens."""
    model, _ = twins("mistral-sliding")
    first = attribute("grad_ellm", model, samples_with_content()[:1], layers=1, **options)[0][0]
    assert (first[:6] == 0).all()
    assert (first[6:] > 0).any()


def test_layers_that_are_clipped_are_all_layers():
    model, _ = twins("llama-gqa")
    clipped, every, fewer = (
        torch.cat(attribute("grad_ellm", model, samples()[:1], **options))
        for options in ({"layers": 4, "clip_layers": True}, {}, {"layers": 2, "clip_layers": True})
    )
    assert torch.equal(clipped, every)
    assert not torch.equal(fewer, every)


def test_the_readings_differ():
    model, _ = twins("llama-gqa")
    readings = [{}, {"similarity": "cosine"}, {"normalise_over": "content"}, {"relu": "sum"}]
    found = [
        attribute("grad_ellm", model, samples_with_content()[:1], **options)[0]
        for options in readings
    ]
    for first, second in itertools.combinations(found, 2):
        assert not torch.allclose(first, second, rtol=1e-3)


def test_samples_that_do_not_say_what_their_content_is_are_named():
    model, _ = twins("llama-gqa")
    with pytest.raises(BenchmarkError, match="sample long: which prompt tokens are content is not"):
        attribute("grad_ellm", model, samples(), normalise_over="content")


@pytest.mark.parametrize("option", [{"similarity": "cosine"}, {"normalise_over": "content"}])
def test_readings_of_loosened_weights_are_refused_with_the_models_own(option):
    options = {"token_weights": "original", **option}
    with pytest.raises(BenchmarkError, match=r"^options: similarity and normalise_over are for"):
        validate(load_method("grad_ellm").Options, options, "options")
