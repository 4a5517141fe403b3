"""Attention against the maps that an unpatched model returns."""

import pytest
import torch

from helpers.attributions import attribute, build
from helpers.quick_cases import each_value_quick
from helpers.random_models import EAGER, SHAPES, samples, twins
from pisoft.errors import BenchmarkError


@pytest.mark.parametrize(("shape", "layers"), each_value_quick(SHAPES, [1, 2, None]))
def test_equals_the_mean_of_the_models_own_maps(shape, layers):
    model, plain = twins(shape)
    found = attribute("attention", model, samples(), layers=layers)
    for sample, scores in zip(samples(), found, strict=True):
        for row, step in enumerate(sample.steps):
            ids = torch.tensor([[*sample.prompt_ids, *sample.output_ids[:step]]])
            with torch.no_grad():
                maps = plain(ids, output_attentions=True).attentions
            rows = torch.stack([one[0, :, -1, : len(sample.prompt_ids)] for one in maps])
            expected = rows[-(layers or len(maps)) :].mean(dim=(0, 1))
            torch.testing.assert_close(scores[row], expected, **EAGER)


def test_only_the_last_layer_is_read_unless_more_are_asked_for():
    model = twins("llama-gqa")[0]
    default, last = (attribute("attention", model, samples(), **o) for o in ({}, {"layers": 1}))
    assert all(torch.equal(a, b) for a, b in zip(default, last, strict=True))


@pytest.mark.parametrize("name", ["attention", "grad_ellm", "value_zeroing"])
def test_more_layers_than_the_model_has_are_refused(name):
    with pytest.raises(BenchmarkError, match=r"layers: 4 is more than the 3 decoder layers"):
        build(name, layers=4).check(twins("llama-gqa")[0])
