"""Checkpointed layers: bitwise equal gradients in less memory."""

from contextlib import suppress

import pytest
import torch
from torch.utils.checkpoint import CheckpointError

from helpers.attributions import attribute
from helpers.limited_memory import Memory
from helpers.quick_cases import one_quick
from helpers.random_models import SHAPES, model_and_network
from pisoft.models.attention import AttentionRecorder
from pisoft.models.layers import checkpointed_layers
from pisoft.models.model import ExplainedSample

LAYERS = 8
LONG = ExplainedSample("long", list(range(3, 63)), [5, 6], [0, 1], [5, 6])
GRADIENT_METHODS = {
    "saliency": {},
    "input_x_gradient": {},
    "deeplift": {},
    "integrated_gradients": {"steps": 3},
    "gradient_shap": {"draws": 3},
    "grad_ellm": {},
    "inseq": {"method": "saliency"},
}


@pytest.mark.parametrize("name", one_quick(GRADIENT_METHODS))
def test_checkpointing_keeps_scores_bitwise_equal_and_saves_memory(name):
    model, _ = model_and_network("mistral-sliding", layers=LAYERS)
    options = GRADIENT_METHODS[name]
    with Memory() as whole:
        (expected,) = attribute(name, model, [LONG], token_budget=1, **options)
    with Memory() as less, checkpointed_layers(model):
        (scores,) = attribute(name, model, [LONG], token_budget=1, **options)
    assert torch.equal(scores, expected)
    # Grad-ELLM itself keeps queries, keys, values and outputs of all layers.
    assert less.peak < (0.9 if name == "grad_ellm" else 0.7) * whole.peak


def test_a_recorder_keeps_original_and_not_recomputed_tensors():
    """Recomputed tensors would hold the activations of all layers until the end."""
    model, _ = model_and_network("llama-gqa")
    recorder = AttentionRecorder(layers=range(model.layers), detach_at=0)
    with checkpointed_layers(model):
        hidden = model.hidden_states(model.embed(torch.tensor([LONG.prompt_ids])), probe=recorder)
        first = dict(recorder.outputs), dict(recorder.inputs)
        torch.autograd.grad(hidden.sum(), list(recorder.outputs.values()))
    for kept, before in zip((recorder.outputs, recorder.inputs), first, strict=True):
        assert [kept[layer] is before[layer] for layer in before] == [True] * model.layers


@pytest.mark.parametrize("shape", SHAPES)
def test_all_layers_but_the_last_are_recomputed_once_per_backward_pass(shape):
    model, _ = model_and_network(shape)
    runs = []
    for layer in model.decoder.layers:
        layer.input_layernorm.register_forward_hook(
            lambda *_, index=layer.self_attn.layer_idx: runs.append(index)
        )
    with checkpointed_layers(model):
        attribute("saliency", model, [LONG])
    assert runs == [0, 1, 2] + [1, 0] * len(LONG.steps)


def test_layers_are_restored_even_after_an_error():
    model, _ = model_and_network("llama-gqa")
    before = [{**vars(layer)} for layer in model.decoder.layers]
    with suppress(ZeroDivisionError), checkpointed_layers(model):
        changed = [{**vars(layer)} for layer in model.decoder.layers]
        raise ZeroDivisionError
    assert [one != other for one, other in zip(changed, before, strict=True)] == [1, 1, 0]
    assert [vars(layer) for layer in model.decoder.layers] == before


def test_a_differing_recomputation_raises_an_error():
    """For example the last layer, whose hooks are gone by then, if it were not excluded."""
    model, _ = model_and_network("llama-gqa")
    embeddings = model.embed(torch.tensor([LONG.prompt_ids])).requires_grad_(True)
    with checkpointed_layers(model):
        hook = model.decoder.layers[0].mlp.register_forward_pre_hook(lambda _, x: (x[0][:, :1],))
        hidden = model.hidden_states(embeddings)
        hook.remove()
        with pytest.raises(CheckpointError):
            torch.autograd.grad(hidden.sum(), embeddings)
