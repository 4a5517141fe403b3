"""Methods against their equations in float64, one input and mostly one token at a time."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from helpers import eager_reference
from helpers.attributions import attribute, build
from helpers.quick_cases import each_value_quick
from helpers.random_models import SHAPES, random_model, samples, with_biases
from pisoft.errors import BenchmarkError

LAST_LAYERS = [{}, {"layers": 2}, {"layers": None}]
READINGS = {
    "similarity": ("dot", "cosine"),
    "normalise_over": ("prompt", "content"),
    "relu": ("layer", "sum"),
    "heads": ("merged", "per_head"),
}
TOKEN_WEIGHTS = ("loosened", "original")
WEIGHTS = {"layers": (1, 2, None), "token_weights": TOKEN_WEIGHTS, "heads": READINGS["heads"]}
RAW = {"threshold": 0, "normalise_layers": False, "final_norm": False}
OPTIONS = {
    **dict.fromkeys(("attention", "grad_ellm_inseq"), LAST_LAYERS),
    **{name: [{}] for name in ("attention_rollout", "depass", "flashtrace", "ifr")},
    "grad_ellm": [
        dict(zip(axes, values, strict=True))
        for axes in (READINGS, WEIGHTS)
        for values in product(*axes.values())
    ]
    + [{"relu": "sum", "token_weights": "original", "heads": heads} for heads in READINGS["heads"]],
    "value_zeroing": [
        *({}, {"final_norm": False}, {"layers": 1}, {"layers": 2, "normalise_layers": False}, RAW),
        # Many distances in these models are smaller.
        *({"threshold": 0.02, "normalise_layers": normalise} for normalise in (True, False)),
        {"normalise_layers": False},
    ],
}
CASES = [
    case for name, options in OPTIONS.items() for case in each_value_quick([name], SHAPES, options)
]


def explained():
    """Return samples whose content is their second half, one also with a contrast.

    Equal tokens would make λ of Grad-ELLM a quotient of rounding errors.
    """
    chosen = [one for one in samples() if one.sample_id != "same"]
    counts = [len(one.prompt_ids) for one in chosen]
    masks = [[2 * place >= count - 1 for place in range(count)] for count in counts]
    chosen = [replace(one, content_mask=mask) for one, mask in zip(chosen, masks, strict=True)]
    return [*chosen, replace(chosen[0], foil_ids=[33, 33])]


def by_equations(name, network, sample, row, options):
    """Return a method's scores for one step."""
    options = dict(options)
    ids = [*sample.prompt_ids, *sample.output_ids[: sample.steps[row]]]
    if name == "grad_ellm":
        whole = options.pop("normalise_over", "prompt") == "prompt"
        inside = [True] * len(sample.prompt_ids) if whole else sample.content_mask
        options["inside"] = torch.tensor([*inside, *[False] * sample.steps[row]])
        options["foils"] = sample.foil_ids[row : row + 1]
    method = eager_reference.BY_HAND[name]
    return method(network, ids, sample.target_ids[row], **options)[: len(sample.prompt_ids)]


@pytest.mark.parametrize(("name", "shape", "options"), CASES)
def test_scores_equal_the_equations(name, shape, options):
    model = random_model(shape)
    if name in ("depass", "flashtrace", "ifr"):
        with_biases(model)
    chosen = explained() if name == "grad_ellm" else samples()
    made = [attribute(name, model, [one], **options)[0] for one in chosen]
    model.network.set_attn_implementation(eager_reference.NAME)
    for sample, scores in zip(chosen, made, strict=True):
        for row, actual in enumerate(scores):
            expected = by_equations(name, model.network, sample, row, options).detach()
            largest = float(expected.abs().max())
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=max(1e-6 * largest, 1e-7))


@pytest.mark.parametrize("shape", SHAPES)
def test_routes_sum_to_one_and_match_flashtrace_in_one_layer(shape):
    deep, shallow = random_model(shape), random_model(shape, layers=1)
    for sample in (one for one in samples() if one.steps[0] == 0):
        (routes,) = attribute("ifr", deep, [sample])
        assert float(routes[0].sum()) == pytest.approx(1)
        (routes,), (shares,) = (attribute(of, shallow, [sample]) for of in ("ifr", "flashtrace"))
        torch.testing.assert_close(routes[0, :-1], shares[0, :-1])
        assert routes[0, -1] > shares[0, -1]  # the prediction's own position has the residual too


@pytest.mark.parametrize("name", ["attention", "grad_ellm", "grad_ellm_inseq", "value_zeroing"])
def test_a_layer_count_above_the_models_is_refused(name):
    with pytest.raises(BenchmarkError, match=r"layers: 4 is more than the 3 decoder layers"):
        build(name, layers=4).check(random_model("llama-gqa"))
