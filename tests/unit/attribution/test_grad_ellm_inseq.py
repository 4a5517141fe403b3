"""Grad-ELLM as in Inseq's repository against its equations, token by token in float64."""

import pytest
import torch
from torch.nn import Linear

from helpers.attributions import attribute, build
from helpers.eager_reference import grad_ellm_inseq
from helpers.quick_cases import each_value_quick
from helpers.random_models import EAGER, SHAPES, samples, twins
from pisoft.errors import BenchmarkError

NAME = "grad_ellm_inseq"


@pytest.mark.parametrize(("shape", "layers"), each_value_quick(SHAPES, [1, 2, None]))
def test_equals_the_equations(shape, layers):
    model, plain = twins(shape)
    options = {} if layers == 1 else {"layers": layers}
    for sample, found in zip(samples(), attribute(NAME, model, samples(), **options), strict=True):
        for row, step, target in zip(found, sample.steps, sample.target_ids, strict=True):
            ids = [*sample.prompt_ids, *sample.output_ids[:step]]
            expected = grad_ellm_inseq(plain, ids, target, layers or 3)[: len(row)]
            torch.testing.assert_close(row, expected, **EAGER)


def test_tokens_that_are_all_equal_have_no_score():
    *_, same, single = attribute(NAME, twins("llama-gqa")[0], samples())
    assert not same.any()
    assert not single.any()


def test_more_layers_than_the_model_has_are_refused():
    with pytest.raises(BenchmarkError, match=r"layers: 4 is more than the 3 decoder layers"):
        build(NAME, layers=4).check(twins("llama-gqa")[0])


@pytest.mark.parametrize(
    ("part", "replacement", "message"),
    [
        ("q_proj", None, "no self_attn with linear q_proj, k_proj, v_proj and o_proj"),
        ("q_proj", Linear(32, 64), "widths .*: 64, 16, 16 and 32: the output must be as wide"),
        ("o_proj", Linear(64, 32), "widths .*: 32, 16, 16 and 32: the output must be as wide"),
        ("k_proj", Linear(32, 8), "widths .*: 32, 8, 16 and 32"),
    ],
)
def test_other_projections_are_refused_by_name(part, replacement, message):
    model, _ = twins("llama-gqa")
    setattr(model.blocks[1].self_attn, part, replacement)
    build(NAME).check(model)  # the last layer is as it was
    expected = f"^method '{NAME}': model 'llama-gqa': layer 1: {message}"
    with pytest.raises(BenchmarkError, match=expected):
        build(NAME, layers=2).check(model)
