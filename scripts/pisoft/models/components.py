"""Hidden states as sums of one component per token and one of all biases.

Attention maps, the scales of norms and the activations of neurons are those of the clean forward,
so every layer maps components to components that sum to its output (DePass, arXiv 2510.18462).
Shapes: T tokens, C = 1 + T components, that of the biases first; S chosen positions, G key-value
heads, D head width, d hidden width.
"""

from __future__ import annotations

from typing import Any

import torch

from pisoft.errors import BenchmarkError
from pisoft.models.layers import (
    LayerCall,
    missing_modules,
    modules_behind,
    require_closed_form,
    visit_layers,
)
from pisoft.models.model import LanguageModel
from pisoft.models.precision import at_least_float32, close, computing_in_float32, whole_in_float32
from pisoft.models.recognition import recognised_parts
from pisoft.models.trial import LENGTH, problem_of, trial_ids

PARTS = (
    *("input_layernorm", "self_attn.v_proj", "self_attn.o_proj", "post_attention_layernorm"),
    *("mlp.gate_proj", "mlp.up_proj", "mlp.act_fn", "mlp.down_proj"),
)


class ComponentForward:
    """A forward pass that carries every token's component of the hidden states along.

    Raises:
        BenchmarkError: its layers are not built like Llama's, one lacks a module, or components of
            a dozen tokens do not sum to the hidden states; the message says what.
    """

    def __init__(self, model: LanguageModel) -> None:
        require_closed_form(model)
        self._model = model
        self._biased = any(name.endswith("bias") for name, _ in model.decoder.named_parameters())
        if problem := missing_modules(model, PARTS) or problem_of(self._try_on_tokens):
            raise BenchmarkError(f"its hidden states cannot be decomposed: {problem}")

    def _try_on_tokens(self) -> str:
        """Recognise the norms; return in words whether components miss the hidden states."""
        self._norms = recognised_parts(self._model).norms
        self._final_norm, *further = modules_behind(self._model)
        if further or self._final_norm not in self._norms:
            return "its last decoder layer is followed by something else than a norm"
        with whole_in_float32(self._model.network, self._model.blocks):
            components, hidden = self.components(trial_ids(self._model), range(LENGTH), LENGTH)
        if close(hidden, components.sum(dim=1), tolerance=1e-3):
            return ""
        return "components do not sum to them"

    @torch.no_grad()
    def components(
        self, input_ids: torch.Tensor, positions: Any, token_budget: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return components (S, C, d) and the final hidden states (S, d) that they sum to.

        Components are float32 or better; the sum is true but for the model's rounding.

        Args:
            input_ids: of one sample, (1, T).
            positions: the chosen ones, (S,).
            token_budget: vectors of the hidden width that a block of components may hold.
        """
        model, length = self._model, input_ids.shape[1]
        every = torch.arange(length, device=model.device)
        size = max(1, token_budget // (1 + length))
        blocks = [slice(start, min(start + size, length)) for start in range(0, length, size)]
        reached = torch.eye(length, dtype=torch.bool, device=model.device)
        states: torch.Tensor | None = None  # (T, C, d)

        def add_layer(call: LayerCall) -> None:
            nonlocal states, reached
            if states is None:
                states = torch.diag_embed(call.residual[0].T).permute(1, 2, 0)  # (T, T, d)
                states = torch.nn.functional.pad(states, (0, 0, 1, 0))
            visible = call.inputs.visible().reshape(length, length)
            reached = visible.float() @ reached.float() > 0
            with computing_in_float32(call.layer):
                self._add_layer(call, states, reached, blocks)

        final = visit_layers(model, model.embed(input_ids), every[None], add_layer)
        assert states is not None
        states, hidden = states[positions], final[0, positions]
        with computing_in_float32(self._final_norm):
            inputs, output = states.sum(dim=1), at_least_float32(hidden)
            return self._normed(self._final_norm, states, inputs, output), hidden

    def _add_layer(
        self, call: LayerCall, states: torch.Tensor, reached: torch.Tensor, blocks: list[slice]
    ) -> None:
        """Turn components (T, C, d) of a layer's input into those of its output, in place.

        Components of later tokens are zero at a position, and left out. `reached` (T, T) says which
        tokens have reached which position through the layers so far.
        """
        layer: Any = call.layer
        attention, mlp, residual = layer.self_attn, layer.mlp, call.residual[0]
        normed = layer.input_layernorm(residual)
        after = residual + attention.o_proj(call.attended[0])
        normed_after = layer.post_attention_layernorm(after)
        neurons = mlp.act_fn(mlp.gate_proj(normed_after)) * mlp.up_proj(normed_after)
        groups, width = call.inputs.value.shape[1], call.inputs.value.shape[3]
        maps = at_least_float32(call.inputs.probabilities()[0]).unflatten(0, (groups, -1))

        values = states.new_zeros(*states.shape[:2], groups * width)
        for block in blocks:
            end = block.stop
            parts = states[block, : 1 + end]
            parts = self._normed(layer.input_layernorm, parts, residual[block], normed[block])
            values[block, : 1 + end] = _of_linear(attention.v_proj, parts)
        for block in blocks:
            end = block.stop
            seen = values[:end, : 1 + end].unflatten(-1, (groups, width))
            mixed = torch.einsum("ghtk,kcgd->tcghd", maps[:, :, block, :end], seen).flatten(2)
            parts = states[block, : 1 + end] + _of_linear(attention.o_proj, mixed)
            of_neurons = self._shares(
                layer, parts, after[block], normed_after[block], reached[block]
            )
            written = _of_linear(mlp.down_proj, of_neurons * neurons[block, None])
            states[block, : 1 + end] = parts + written

    def _shares(
        self,
        layer: Any,
        parts: torch.Tensor,
        after: torch.Tensor,
        normed: torch.Tensor,
        reached: torch.Tensor,
    ) -> torch.Tensor:
        """Return the share of every neuron that each component has, which sum to one over these.

        It is the softmax over components of what they add to the gate before its activation. Tokens
        that have not reached the position have no share, nor have biases if the model has none:
        such components are zero, but e⁰ is not.
        """
        normed_parts = self._normed(layer.post_attention_layernorm, parts, after, normed)
        gates = _of_linear(layer.mlp.gate_proj, normed_parts)
        partakes = torch.nn.functional.pad(reached, (1, 0), value=self._biased)
        partakes = partakes[:, : parts.shape[1], None]
        return gates.masked_fill(~partakes, -torch.inf).softmax(dim=1)

    def _normed(
        self, norm: torch.nn.Module, parts: torch.Tensor, inputs: torch.Tensor, output: torch.Tensor
    ) -> torch.Tensor:
        """Return components (S, C, d) behind a norm, given its inputs and output (S, d)."""
        bias = getattr(norm, "bias", None)
        if bias is None:
            return self._norms[norm].of_parts(norm, parts, inputs[:, None], output[:, None])
        parts = self._norms[norm].of_parts(norm, parts, inputs[:, None], output[:, None] - bias)
        parts[:, 0] += bias
        return parts


def _of_linear(linear: Any, parts: torch.Tensor) -> torch.Tensor:
    """Return components (S, C, width) behind a linear layer, its bias in the first alone."""
    outputs = linear(parts)
    if linear.bias is not None:
        outputs[:, 1:] -= linear.bias
    return outputs
