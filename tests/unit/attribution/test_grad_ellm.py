"""Grad-ELLM against a plain implementation with hooks on an unpatched model."""

import pytest
import torch

from helpers.attributions import attribute
from helpers.random_models import model_and_network, samples
from pisoft.attribution import load_method
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError


def test_layer_counts_above_the_models_are_clipped():
    model, _ = model_and_network("llama-gqa")
    clipped, every, fewer = (
        torch.cat(attribute("grad_ellm", model, samples()[:1], **options))
        for options in ({"layers": 4, "clip_layers": True}, {}, {"layers": 2, "clip_layers": True})
    )
    assert torch.equal(clipped, every)
    assert not torch.equal(fewer, every)


def test_samples_without_content_masks_are_named():
    model, _ = model_and_network("llama-gqa")
    with pytest.raises(BenchmarkError, match="sample long: which prompt tokens are content is not"):
        attribute("grad_ellm", model, samples(), normalise_over="content")


@pytest.mark.parametrize("option", [{"similarity": "cosine"}, {"normalise_over": "content"}])
def test_options_of_loosened_weights_are_refused_for_original_ones(option):
    options = {"token_weights": "original", **option}
    with pytest.raises(BenchmarkError, match=r"^options: similarity and normalise_over apply only"):
        validate(load_method("grad_ellm").Options, options, "options")
