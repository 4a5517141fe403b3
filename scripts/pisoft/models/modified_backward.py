"""A modified backward pass: other gradients for an unchanged forward pass.

The rules implement layer-wise relevance propagation in its gradient form, and GIM. Forward hooks of
modules and the attention probe apply them while a context is open. The parts recognised by
:mod:`pisoft.models.recognition` are tested layer by layer.
Shapes: B samples, T positions, H query heads, D head width, d hidden width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from pisoft.errors import BenchmarkError
from pisoft.models.attention import AttentionInputs, AttentionProbe, attention_output
from pisoft.models.layers import run_again
from pisoft.models.model import LanguageModel
from pisoft.models.precision import at_least_float32, close, computing_in_float32
from pisoft.models.recognition import ModuleCall, layer_name, module_calls, recognised_parts
from pisoft.models.trial import problem_of


@dataclass(frozen=True)
class BackwardRules:
    """Changes to derivatives; the defaults change none."""

    constant_norms: bool = False  # the statistic that a norm divides by is a constant
    query_key: float = 1.0  # factor of the gradients at queries and keys; 0: none flow
    value: float = 1.0  # factor of the gradients at values
    # Temperature in the derivative of the attention softmax, s ⊙ (g − ⟨g, s⟩) with
    # s = softmax(scores / temperature).
    softmax_temperature: float = 1.0
    gated: float = 1.0  # factor at gate and up branch of a gated feed-forward block
    constant_gates: bool = False  # the activated gate of such a block is a constant
    constant_routing: bool = False  # the mixing weights of experts are constants
    linear_activations: bool = False  # act(z) is z times the constant act(z) / z


# These rules make a layer linear in its input and its biases.
CONSERVING = BackwardRules(
    constant_norms=True,
    query_key=0,
    constant_gates=True,
    constant_routing=True,
    linear_activations=True,
)


def differentiated_as(value: torch.Tensor, surrogate: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the exact value of one tensor and the gradient of another."""
    return value.detach() + (surrogate - surrogate.detach()).to(value.dtype)


def scaled_gradient(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """Return the tensor with its gradient multiplied by a factor."""
    if factor == 1:
        return tensor
    return differentiated_as(tensor, factor * tensor) if factor else tensor.detach()


def tempered_softmax(temperature: float, scores: torch.Tensor, dim: int) -> torch.Tensor:
    """Return softmax(z), with gradient s ⊙ (g − ⟨g, s⟩), s = softmax(z / temperature).

    The derivative of softmax(z / temperature) itself has another factor 1 / temperature.
    """
    tempered = temperature * (scores / temperature).softmax(dim)
    return differentiated_as(scores.softmax(dim), tempered)


def _attention(rules: BackwardRules, inputs: AttentionInputs, _: object) -> torch.Tensor:
    """Return attention output (B, T, H, D) with other gradients at queries, keys and values."""
    inputs = replace(
        inputs,
        query=scaled_gradient(inputs.query, rules.query_key),
        key=scaled_gradient(inputs.key, rules.query_key),
        value=scaled_gradient(inputs.value, rules.value),
    )
    if rules.softmax_temperature == 1:
        return attention_output(inputs)
    softmax = partial(tempered_softmax, rules.softmax_temperature)
    return inputs.weighted_values(inputs.probabilities(softmax))


def _linear_activation(inputs: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Return z times the constant act(z) / z, float32 or better; 0 where z = 0."""
    z, activated = at_least_float32(inputs), at_least_float32(output)
    return z * (activated / z.where(z != 0, 1)).detach()


class ModifiedBackward:
    """The parts of a model whose gradients can be modified.

    Raises:
        BenchmarkError: part of a layer is not recognised; the message names it.
    """

    def __init__(self, model: LanguageModel) -> None:
        if not model.blocks:
            raise BenchmarkError("its decoder has no list of its layers")
        if problem := problem_of(partial(self._try_on, model)):
            raise BenchmarkError(f"its backward pass cannot be modified: {problem}")

    @contextmanager
    def applied(self, rules: BackwardRules) -> Iterator[AttentionProbe]:
        """Apply rules within the context, to forwards with the probe that it yields.

        Run backward passes inside too: checkpointed layers run again in them.
        """

        def norm(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
            return differentiated_as(
                output, self._parts.norms[module].linear(module, inputs[0], output)
            )

        def activation(_: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
            return differentiated_as(output, _linear_activation(inputs[0], output))

        def constant(_: torch.nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
            return output.detach()

        def constant_weights(_: torch.nn.Module, __: Any, outputs: tuple[torch.Tensor]) -> Any:
            return tuple(output.detach() for output in outputs)

        def gated(_: torch.nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
            # The block is linear after the product, so the factor may be applied to its output.
            return scaled_gradient(output, rules.gated)

        hooks: list[tuple[bool, Any, Any]] = [
            (rules.constant_norms, self._parts.norms, norm),
            (rules.linear_activations, self._parts.activations, activation),
            (rules.constant_gates, self._parts.gates, constant),
            (rules.gated != 1, self._parts.gated, gated),
            (rules.constant_routing, self._parts.routers, constant_weights),
        ]
        with ExitStack() as stack:
            for switched_on, modules, hook in hooks:
                for module in modules if switched_on else ():
                    stack.enter_context(module.register_forward_hook(hook))
            yield partial(_attention, rules)

    def _try_on(self, model: LanguageModel) -> str:
        """Recognise a model's parts; describe the first layer with wrong gradients, if any.

        Without rules, gradients must equal the layer's own. The rules of CP-LRP make the layer
        linear, so gradients times inputs and biases must sum to its output (Euler); this exposes
        any other product or nonlinearity.
        """
        self._parts = recognised_parts(model)
        for index, (block, call) in enumerate(zip(model.blocks, _layer_calls(model), strict=True)):
            name = layer_name(model, index)
            with torch.enable_grad(), computing_in_float32(block), _biases_of(block) as biases:
                plain, plain_gradients, direction = _differentiated(block, call, None, biases)
                with self.applied(BackwardRules()) as probe:
                    output, gradients, _ = _differentiated(block, call, probe, biases)
                if not (
                    close(plain, output, tolerance=1e-4)
                    and close(plain_gradients[0], gradients[0], tolerance=1e-3)
                ):
                    return f"{name} with all rules off does not have its own gradients"
                with self.applied(CONSERVING) as probe:
                    output, gradients, _ = _differentiated(block, call, probe, biases)
                if not close(plain, output, tolerance=1e-4):
                    return f"{name} does not keep its output"
                pairs = zip([call.hidden, *biases], gradients, strict=True)
                relevance = sum(float((x.detach().double() * g).sum()) for x, g in pairs)
                expected = float((output.double() * direction).sum())
                if abs(relevance - expected) > 1e-2 * float(direction.double().square().sum()):
                    return f"{name} computes more than norms, attention and feed-forward blocks do"
        return ""


def _layer_calls(model: LanguageModel) -> list[ModuleCall]:
    """Return the calls of all decoder layers on the trial's tokens, in float32."""
    with torch.no_grad():
        calls = module_calls(model)
    return [calls[block][0] for block in model.blocks]


@contextmanager
def _biases_of(block: torch.nn.Module) -> Iterator[list[torch.nn.Parameter]]:
    biases = [value for name, value in block.named_parameters() if name.endswith("bias")]
    for bias in biases:
        bias.requires_grad_(True)
    try:
        yield biases
    finally:
        for bias in biases:
            bias.requires_grad_(False)


def _differentiated(
    block: torch.nn.Module,
    call: ModuleCall,
    probe: AttentionProbe | None,
    biases: list[torch.nn.Parameter],
) -> tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]:
    """Run a layer again; return its output, gradients, and the direction of differentiation.

    The direction is the layer's update of its input, so that small updates of large inputs count.
    """
    hidden = call.hidden.detach().requires_grad_(True)
    output = run_again(block, call.args, call.kwargs, probe, hidden)
    direction = (output - hidden).detach()
    inputs = [hidden, *biases]
    partials = torch.autograd.grad((output * direction).sum(), inputs, allow_unused=True)
    gradients = [
        torch.zeros_like(x) if g is None else g for x, g in zip(inputs, partials, strict=True)
    ]
    return output.detach(), gradients, direction
