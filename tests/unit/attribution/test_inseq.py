"""The Inseq adapter preserves token ids and leaves the model unchanged."""

import copy
import inspect
import random
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from helpers.fixed_inseq import tensor_states_hook
from helpers.random_models import SHAPES, model_and_network, random_model, samples
from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.attribution.inseq import (
    ARGUMENTS,
    DISCRETIZED,
    LOAD_ARGUMENTS,
    NEED_SCIKIT_LEARN,
    REFUSED,
)
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import Batch, ExplainedSample

pytestmark = pytest.mark.slow

PASSED_BY_INSEQ = {
    *("self", "attribution_model", "inputs", "baselines", "target", "additional_forward_args"),
    *("encoder_self_attentions", "decoder_self_attentions", "cross_attentions"),
}
END = 2  # equals pad, the default of the tokenizer
STEPS = (0, 3)


def build(method, seed=1, **options):
    inseq = load_method("inseq")
    return inseq(
        validate(inseq.Options, {"method": method, **options}, "options"), Context(seed=seed)
    )


def attribute(model, chosen, method, seed=1, **options):
    return build(method, seed, **options).attribute(model, Batch(chosen, model.device))


def templated():
    """Return a sample with BOS and EOS inside, whose targets are not the tokens that follow."""
    prompt = [1, 1, 9, 30, END, 44, END, END, 17]
    return ExplainedSample("templated", prompt, [12, END, 5, 8], STEPS, (33, 71))


def available():
    from inseq import list_feature_attribution_methods

    return list_feature_attribution_methods()


def working():
    return sorted(set(available()) - set(REFUSED))


@pytest.fixture
def model():
    return random_model("llama-gqa")


def test_supported_methods_give_finite_scores_that_differ(model):
    for method in working():
        build(method).check(model)
        for scores in attribute(model, [templated(), samples()[0]], method):
            assert scores.isfinite().all(), method
            assert (scores >= 0).all(), method
            assert (scores.amax(dim=1) > scores.amin(dim=1)).all(), method


def test_refused_methods_fail_or_give_nothing_in_inseq(model):
    theirs = set(REFUSED) - {"grad_ellm"}
    assert theirs <= set(available())
    inseq = load_method("inseq")
    for method in theirs:
        refused = inseq(inseq.Options.model_construct(method=method), Context(seed=1))
        try:
            (scores,) = refused.attribute(model, Batch([templated()], model.device))
        except (BenchmarkError, TypeError):  # `dummy` returns None
            continue
        assert (scores == 0).all(), f"{method} works again"


def test_methods_and_arguments_match_inseqs(model):
    from inseq.attr import FeatureAttribution

    def names(function):
        parameters = inspect.signature(function).parameters.values()
        named = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        return tuple(name for name in named if name not in PASSED_BY_INSEQ)

    assert working() == sorted(ARGUMENTS)
    for method, arguments in ARGUMENTS.items():
        attribution = build(method)._inseq(model).attribution_method.method
        assert names(attribution.attribute) == arguments, method
        made = FeatureAttribution.available_classes()[method].__init__
        assert names(made) == LOAD_ARGUMENTS.get(method, ()), method


OURS = [
    *(
        (name, {"attributed_function": function}, {"attributed_function": function})
        for name in ("saliency", "input_x_gradient")
        for function in ("probability", "logit")
    ),
    ("saliency", {}, "contrast"),
    ("attention", {"layer": -1}, {"layers": 1}),
    ("attention", {"layer": 2}, {"layers": 1}),
    ("attention", {}, {"layers": None}),
    ("occlusion", {}, {}),  # end-of-sequence tokens are kept
    ("integrated_gradients", {"arguments": {"n_steps": 16}}, {}),
    ("deeplift", {}, {}),
    ("value_zeroing", {}, {}),
]


@pytest.fixture
def value_zeroing(monkeypatch):
    """Fix Inseq's, and take its cosines in float64: 1 - cos in float32 is off by 1e-7.

    Distances near 1e-5, its threshold, are common.
    """
    from inseq.attr.feat.ops import ValueZeroing

    def cosine(clean, corrupted):
        return cosine_similarity(clean.double(), corrupted.double(), dim=-1)

    monkeypatch.setattr(ValueZeroing, "get_states_extract_and_patch_hook", tensor_states_hook)
    monkeypatch.setitem(ValueZeroing.SIMILARITY_METRICS, "cosine", cosine)
    monkeypatch.delitem(REFUSED, "value_zeroing")
    monkeypatch.setitem(ARGUMENTS, "value_zeroing", ())


@pytest.mark.usefixtures("value_zeroing")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "options", "ours"), OURS)
def test_scores_equal_our_own_implementations(shape, name, options, ours):
    model, _ = model_and_network(shape)
    chosen = [templated(), *samples()]
    if ours == "contrast":
        chosen = [replace(one, foil_ids=[33] * len(one.steps)) for one in chosen]
        ours = {}
    method = load_method(name)
    method = method(method.Options(**ours), Context(seed=1))
    expected = method.attribute(model, Batch(chosen, model.device))
    for a, b in zip(attribute(model, chosen, name, **options), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * b.max().item())


def test_arguments_reach_inseq(model):
    def scores(method, **options):
        return attribute(model, [templated()], method, **options)[0]

    few, many = (scores("integrated_gradients", arguments={"n_steps": steps}) for steps in (2, 60))
    assert not torch.allclose(few, many, rtol=1e-2)
    local = scores("deeplift", load_arguments={"multiply_by_inputs": False})  # gradients only
    torch.testing.assert_close(local, scores("saliency"), rtol=1e-4, atol=1e-8)
    batched = scores("occlusion", arguments={"perturbations_per_eval": 4})
    torch.testing.assert_close(batched, scores("occlusion"), rtol=1e-4, atol=1e-7)


def test_random_methods_depend_only_on_seed_and_sample_and_keep_global_rng(model):
    def shap(chosen, seed=1):  # draws points by numpy and, with a spread, noise by torch
        return attribute(model, chosen, "gradient_shap", seed=seed, arguments={"stdevs": 0.1})

    def numbers(between=None):
        for restart in (torch.manual_seed, np.random.seed, random.seed):
            restart(0)
        if between:
            shap(between)
        return torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random()

    chosen = [templated(), *samples()]
    first = shap(chosen)
    assert numbers() == numbers(chosen[:1])
    for scores, other in zip(first, shap(chosen[::-1])[::-1], strict=True):
        assert torch.equal(scores, other)
    assert torch.equal(first[0], shap(chosen[:1])[0])
    assert not torch.allclose(shap(chosen[:1], seed=2)[0], first[0])
    assert not torch.allclose(shap([replace(chosen[0], sample_id="other")])[0], first[0])


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("occlusion", {}),
        ("deeplift", {}),
        ("attention", {}),
        ("integrated_gradients", {"n_steps": "many"}),  # fails half-way
    ],
)
def test_the_model_is_left_unchanged(model, method, arguments):
    def state():
        hooks = [hook for m in model.network.modules() for hook in m._forward_hooks.values()]
        return (
            copy.deepcopy(model.network.config.to_dict()),
            model.network.config._attn_implementation,
            [(parameter.grad, parameter.requires_grad) for parameter in model.network.parameters()],
            [hook for hook in hooks if "transformers" not in hook.__module__],  # it keeps its own
            copy.deepcopy(model.tokenizer.special_tokens_map),
            model.tokenizer.padding_side,
        )

    model.tokenizer.padding_side = "right"  # Inseq needs the other one
    before = state()
    assert before[1] == ATTENTION_NAME
    with pytest.raises(BenchmarkError) if arguments else nullcontext():
        attribute(model, [templated()], method, arguments=arguments)
    assert state() == before


def test_discretized_gradients_use_no_cached_neighbours_of_other_weights(model, monkeypatch):
    """Inseq caches them in a file named after the model."""
    from inseq.attr.feat.ops import monotonic_path_builder as builder

    find = Mock(side_effect=builder.kneighbors_graph)
    monkeypatch.setattr(builder, "kneighbors_graph", find)
    for _ in range(2):
        attribute(model, [templated()], DISCRETIZED, arguments={"n_steps": 4})
    assert find.call_count == 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"method": "layer_deeplift"}, "method: 'layer_deeplift' is refused: .*zero"),
            (
                {"method": "deeplift", "load_arguments": {"multiply_by_input": 1}},
                "load_arguments: .*did you mean 'multiply_by_inputs'",
            ),
            ({"method": "occlusion", "layer": 1}, "layer: 1 is for methods that read att"),
        ],
    )
    def test_invalid_options_name_value_and_allowed_values(self, options, message):
        with pytest.raises(BenchmarkError, match=f"^options: {message}"):
            build(**options)

    def test_a_layer_that_the_model_lacks_is_refused(self, model):
        with pytest.raises(BenchmarkError, match=r"option layer: 3 .*allowed: -3 to 2"):
            build("attention", layer=3).check(model)

    @pytest.mark.parametrize("method", NEED_SCIKIT_LEARN)
    def test_missing_scikit_learn_is_named(self, model, method, monkeypatch):
        monkeypatch.setattr("pisoft.attribution.inseq.find_spec", lambda name: None)
        with pytest.raises(BenchmarkError, match=f"'{method}' needs scikit-learn"):
            build(method).check(model)

    def test_bad_argument_values_name_method_and_sample(self, model):
        with pytest.raises(BenchmarkError, match=r"'integrated_gradients': sample templated.*step"):
            attribute(model, [templated()], "integrated_gradients", arguments={"n_steps": "many"})

    def test_a_prompt_longer_than_the_context_is_not_cut(self, model):
        fits, longer = (
            ExplainedSample("long", [7, 9, 11] * 42 + [5] * more, [4], [0], [4]) for more in (2, 3)
        )
        assert attribute(model, [fits], "saliency")[0].shape == (1, 128)
        with pytest.raises(BenchmarkError, match=r"'inseq': option method: 'saliency': .*129 tok"):
            attribute(model, [longer], "saliency")

    def test_changed_token_ids_are_detected(self, model, monkeypatch):
        method = build("saliency")
        inseq = method._inseq(model)
        enrich = inseq.formatter.enrich_step_output

        def shifted(*arguments):
            output = enrich(*arguments)
            output.prefix[0] = output.prefix[0][1:]
            return output

        monkeypatch.setattr(inseq.formatter, "enrich_step_output", shifted)
        with pytest.raises(BenchmarkError, match="Inseq scored 9 tokens with ids"):
            method.attribute(model, Batch([templated()], model.device))
