"""Grad-ELLM as in Inseq's repository against its equations, token by token in float64."""

import pytest
from torch.nn import Linear

from helpers.attributions import build
from helpers.random_models import twins
from pisoft.errors import BenchmarkError

NAME = "grad_ellm_inseq"


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
