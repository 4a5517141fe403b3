"""Inside a decoder layer: what its output is made from.

Shapes: B samples, T positions, S chosen positions, H query heads, D head width, d hidden width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from pisoft.lm.attention import AttentionInputs
from pisoft.lm.model import LanguageModel
from pisoft.lm.precision import close

Visit = Callable[[torch.nn.Module, torch.Tensor, torch.Tensor, AttentionInputs], None]


def layer_output(
    layer: torch.nn.Module, residual: torch.Tensor, attended: torch.Tensor
) -> torch.Tensor:
    """Return the output (…, d) of a pre-norm decoder layer, as Llama and Mistral have them.

    Args:
        layer: the decoder layer.
        residual: its input at the same positions, (…, d).
        attended: its attention output before the output projection, (…, H·D).
    """
    parts: Any = layer
    hidden = residual + parts.self_attn.o_proj(attended)
    return hidden + parts.mlp(parts.post_attention_layernorm(hidden))


def tail_modules(layer: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the modules that :func:`layer_output` runs."""
    parts: Any = layer
    return [parts.self_attn.o_proj, parts.post_attention_layernorm, parts.mlp]


@contextmanager
def checkpointed_layers(model: LanguageModel) -> Iterator[None]:
    """Keep only the inputs of decoder layers for the backward pass, which computes the rest again.

    Gradients are the same to the bit, also those of what a probe has recorded inside a layer; each
    backward pass costs a forward on top. Backward passes must run inside the context. It is not
    left to transformers, which checkpoints in training mode alone.
    """
    modules: Iterator[Any] = model.decoder.modules()
    layers = [module for module in modules if isinstance(module, GradientCheckpointingLayer)]
    # The backward pass begins with the last layer, so nothing would be gained there; and hooks of
    # `next_token_logits`, which are gone by then, change what it computes.
    forwards = [(layer, layer.forward) for layer in layers[:-1]]
    for layer, forward in forwards:
        layer.forward = partial(checkpoint, forward, use_reentrant=False, preserve_rng_state=False)
    try:
        yield
    finally:
        for layer, forward in forwards:
            layer.forward = forward


class LayerVisitor:
    """An attention probe that calls `visit` once in every decoder layer of a forward pass.

    Args:
        model: the model; enter :meth:`listening` around its forward pass.
        positions: chosen positions, (B, S).
        visit: called with the layer, its input at these positions (B, S, d), its attention output
            there before the output projection (B, S, H·D), and what reached its attention.
    """

    computes_output = False

    def __init__(self, model: LanguageModel, positions: torch.Tensor, visit: Visit) -> None:
        self._layers = model.decoder.layers
        self._rows = torch.arange(len(positions), device=positions.device)[:, None]
        self._positions = positions
        self._visit = visit
        self._residual: torch.Tensor | None = None

    @contextmanager
    def listening(self) -> Iterator[LayerVisitor]:
        """Note the input of every layer while the context is open."""
        handles = [layer.register_forward_pre_hook(self._note_input) for layer in self._layers]
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def __call__(self, inputs: AttentionInputs, default: torch.Tensor | None) -> torch.Tensor:
        """Visit a layer and leave its attention output (B, T, H, D) as it is."""
        assert default is not None
        assert self._residual is not None
        attended = default[self._rows, self._positions].flatten(start_dim=2)
        self._visit(self._layers[inputs.layer], self._residual, attended, inputs)
        return default

    def _note_input(self, layer: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        self._residual = arguments[0][self._rows, self._positions]


def layers_are_followed(model: LanguageModel) -> bool:
    """Return whether the layers of a model are as expected, on a short input.

    :func:`layer_output` reproduces every layer, and behind the last one there is only the
    decoder's `norm`.
    """
    rebuilt: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []
    ids = torch.tensor([[0, 1]], device=model.device)
    visitor = LayerVisitor(
        model,
        torch.tensor([[0, 1]], device=model.device),
        lambda layer, residual, attended, _: rebuilt.append(
            layer_output(layer, residual, attended)
        ),
    )
    handles = [
        layer.register_forward_hook(lambda _, __, output: outputs.append(output))
        for layer in model.decoder.layers
    ]
    try:
        with torch.no_grad(), visitor.listening():
            outputs.append(model.hidden_states(model.embed(ids), probe=visitor))
            rebuilt.append(model.decoder.norm(rebuilt[-1]))
    except AttributeError:  # a decoder without these parts
        return False
    finally:
        for handle in handles:
            handle.remove()
    return len(rebuilt) == len(outputs) and all(
        close(theirs, ours, tolerance=1e-2) for ours, theirs in zip(rebuilt, outputs, strict=True)
    )
