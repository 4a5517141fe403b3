"""A modified backward pass: the forward pass as it is, with other gradients.

The rules are those of layer-wise relevance propagation in its gradient form, and of GIM. They sit
in forward hooks of single modules and in the attention probe, for as long as a context is open.
Modules are recognised by what they compute on a dozen tokens, not by their class, and what was
recognised is then tried layer by layer.
Shapes: B samples, T positions, H query heads, D head width, d hidden width.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch

from pisoft.errors import BenchmarkError
from pisoft.models.attention import AttentionInputs, AttentionProbe, attention_output
from pisoft.models.model import LanguageModel
from pisoft.models.precision import (
    at_least_float32,
    close,
    computing_in_float32,
    whole_in_float32,
)
from pisoft.models.trial import problem_of, trial_ids


@dataclass(frozen=True)
class BackwardRules:
    """What replaces derivatives; the defaults replace none.

    Attributes:
        constant_norms: the statistic that a norm divides by counts as a constant.
        query_key, value: factors of the gradients at queries and keys, and at values; 0: none flow.
        softmax_temperature: of the attention map in the derivative of the softmax, s ⊙ (g − ⟨g, s⟩)
            with s = softmax(scores / temperature).
        gated: factor of the gradients at gate and up branch of a gated feed-forward block.
        constant_gates: the activated gate of a gated feed-forward block counts as a constant.
        constant_routing: the weights with which experts are mixed count as constants.
        linear_activations: act(z) counts as z times the constant act(z) / z.
    """

    constant_norms: bool = False
    query_key: float = 1.0
    value: float = 1.0
    softmax_temperature: float = 1.0
    gated: float = 1.0
    constant_gates: bool = False
    constant_routing: bool = False
    linear_activations: bool = False


# With which a layer is linear in its input and its biases.
CONSERVING = BackwardRules(
    constant_norms=True,
    query_key=0,
    constant_gates=True,
    constant_routing=True,
    linear_activations=True,
)


def differentiated_as(value: torch.Tensor, surrogate: torch.Tensor) -> torch.Tensor:
    """Return a tensor with one tensor's value, to the bit, and another's gradient."""
    return value.detach() + (surrogate - surrogate.detach()).to(value.dtype)


def scaled_gradient(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """Return a tensor whose gradient is multiplied by a factor on its way back."""
    if factor == 1:
        return tensor
    return differentiated_as(tensor, factor * tensor) if factor else tensor.detach()


def tempered_softmax(temperature: float, scores: torch.Tensor, dim: int) -> torch.Tensor:
    """Return softmax(z), with gradient s ⊙ (g − ⟨g, s⟩), s = softmax(z / temperature).

    The derivative of softmax(z / temperature) itself has a factor 1 / temperature besides.
    """
    tempered = temperature * (scores / temperature).softmax(dim)
    return differentiated_as(scores.softmax(dim), tempered)


@dataclass(frozen=True)
class _AttentionRule:
    """An attention probe with other gradients at queries, keys and values."""

    rules: BackwardRules
    computes_output: bool = True

    def __call__(self, inputs: AttentionInputs, default: torch.Tensor | None) -> torch.Tensor:
        """Return the attention output (B, T, H, D)."""
        rules = self.rules
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


@dataclass(frozen=True)
class _NormForm:
    """A norm y = (x − mean) · w / statistic + b, the mean if `centred`, else 0; w is `weight`."""

    centred: bool
    weight: Callable[[torch.nn.Module], torch.Tensor | float]

    def linear(
        self, module: torch.nn.Module, inputs: torch.Tensor, output: torch.Tensor
    ) -> torch.Tensor:
        """Return the output (…, d) with the statistic a constant, float32 or better.

        The statistic is that of the output, whatever the norm adds to it for stability.
        """
        x, y = at_least_float32(inputs), at_least_float32(output)
        if self.centred:
            x = x - x.mean(dim=-1, keepdim=True)
        x = x * self.weight(module)
        bias = getattr(module, "bias", None)
        bias = 0.0 if bias is None else at_least_float32(bias)
        squares = x.square().sum(dim=-1, keepdim=True)
        inverse = (x * (y - bias)).sum(dim=-1, keepdim=True) / squares.where(squares > 0, 1)
        return x * inverse.detach() + bias


def _no_weight(module: torch.nn.Module) -> float:
    return 1.0


def _weight(module: Any) -> torch.Tensor:
    return at_least_float32(module.weight)


def _weight_from_one(module: Any) -> torch.Tensor:
    return 1 + at_least_float32(module.weight)


# RMSNorm and LayerNorm, whose weights, if there are any, may be stored less one, as Gemma's are.
NORM_FORMS = [
    _NormForm(*form) for form in product((False, True), (_weight, _weight_from_one, _no_weight))
]


def _linear_activation(inputs: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Return z times the constant act(z) / z, float32 or better; 0 where z is."""
    z, activated = at_least_float32(inputs), at_least_float32(output)
    return z * (activated / z.where(z != 0, 1)).detach()


class ModifiedBackward:
    """What of a model is given other gradients.

    Args:
        model: the explained model.

    Raises:
        BenchmarkError: its layers hold something that is not recognised; the message says what.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._norms: dict[torch.nn.Module, _NormForm] = {}
        self._activations: list[torch.nn.Module] = []
        self._gates: list[torch.nn.Module] = []  # activations that a product follows
        self._gated: list[torch.nn.Module] = []  # feed-forward blocks that hold the product
        self._experts: list[torch.nn.Module] = []  # those that are told how to mix their results
        if not model.blocks:
            raise BenchmarkError("its decoder has no list of its layers")
        for attempt in (self._recognise, self._try_layers):
            if problem := problem_of(partial(attempt, model)):
                raise BenchmarkError(f"its backward pass cannot be modified: {problem}")

    @contextmanager
    def applied(self, rules: BackwardRules) -> Iterator[AttentionProbe]:
        """Let rules hold while the context is open, for forwards with the probe that it gives.

        Backward passes belong inside too: where layers are checkpointed, they run layers again.
        """

        def norm(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
            return differentiated_as(output, self._norms[module].linear(module, inputs[0], output))

        def activation(_: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
            return differentiated_as(output, _linear_activation(inputs[0], output))

        def constant(_: torch.nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
            return output.detach()

        def constant_weights(_: torch.nn.Module, inputs: Any) -> Any:
            hidden, *routing = inputs
            return (hidden, *(given.detach() for given in routing))

        def gated(_: torch.nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
            # What follows the product is linear, so its factor may as well come behind.
            return scaled_gradient(output, rules.gated)

        hooks: list[tuple[bool, Any, Any]] = [
            (rules.constant_norms, self._norms, norm),
            (rules.linear_activations, self._activations, activation),
            (rules.constant_gates, self._gates, constant),
            (rules.gated != 1, self._gated, gated),
        ]
        with ExitStack() as stack:
            for switched_on, modules, hook in hooks:
                for module in modules if switched_on else ():
                    stack.callback(module.register_forward_hook(hook).remove)
            for module in self._experts if rules.constant_routing else ():
                stack.callback(module.register_forward_pre_hook(constant_weights).remove)
            yield _AttentionRule(rules)

    @torch.no_grad()
    def _recognise(self, model: LanguageModel) -> str:
        """Find norms, activations and gated blocks; return in words what is none of them."""
        calls = _module_calls(model)
        layers = [(f"decoder layer {n}", block) for n, block in enumerate(model.blocks)]
        inside = {part for _, block in layers for part in block.modules()}
        outside = [part for part in model.network.modules() if part not in inside]
        for where, parts in [
            *((where, list(block.modules())) for where, block in layers),
            ("", outside),
        ]:
            activations = []
            for part in parts:
                with computing_in_float32(part):
                    kind = _kind(part, calls[part])
                    if kind == "norm":
                        forms = (form for form in NORM_FORMS if _fits(form, part, calls[part][0]))
                        if (form := next(forms, None)) is None:
                            return f"norm {type(part).__name__} is neither RMSNorm nor LayerNorm"
                        self._norms[part] = form
                    elif kind == "activation":
                        activations.append(part)
            if where and not activations:
                return f"{where} ({_class_of(model)}) has no activation that is a module"
            self._activations += activations
            for activation in activations:
                if problem := self._recognise_block(where, parts, calls, activation):
                    return problem
        return ""

    def _recognise_block(
        self,
        where: str,
        parts: list[torch.nn.Module],
        calls: dict[torch.nn.Module, list[_Call]],
        activation: torch.nn.Module,
    ) -> str:
        """Find out whether a feed-forward block is gated; return in words if it is of no kind."""
        parent = next(part for part in parts if activation in part.children())
        block = f"{where}: feed-forward block {type(parent).__name__}"
        activated = [call.output for call in calls[activation]]  # one, or one for every expert
        if any(_is_given(calls[part], one) for part in parent.modules() for one in activated):
            return ""  # the next linear layer reads it as it is: nothing is multiplied by it
        if len(calls[parent]) != 1 or not _is_gated(
            parent, activation, calls[parent][0], activated
        ):
            return f"{block} is neither act(x) nor act(gate) · up between linear layers"
        self._gates.append(activation)
        self._gated.append(parent)
        if len(calls[parent][0].given) > 1:
            self._experts.append(parent)
        return ""

    def _try_layers(self, model: LanguageModel) -> str:
        """Return in words what is wrong with the gradients of a layer.

        Without rules they must be the layer's own. With those of CP-LRP the layer is linear, so
        that the products of gradients with inputs and biases sum to its output (Euler). Whatever
        else multiplies or bends something in it gives itself away here.
        """
        for number, (block, call) in enumerate(zip(model.blocks, _layer_calls(model), strict=True)):
            name = f"decoder layer {number} ({_class_of(model)})"
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
                relevance = sum(float((at.detach().double() * by).sum()) for at, by in pairs)
                expected = float((output.double() * direction).sum())
                if abs(relevance - expected) > 1e-2 * float(direction.double().square().sum()):
                    return f"{name} computes more than norms, attention and feed-forward blocks do"
        return ""


@dataclass(frozen=True)
class _Call:
    """What a module was called with, by position and by name, and what it gave."""

    given: tuple[Any, ...]
    named: dict[str, Any]
    output: Any

    @property
    def hidden(self) -> torch.Tensor:
        """The input of a decoder layer."""
        return self.given[0] if self.given else self.named["hidden_states"]


def _class_of(model: LanguageModel) -> str:
    return type(model.blocks[0]).__name__


def _module_calls(model: LanguageModel) -> dict[torch.nn.Module, list[_Call]]:
    """Return all calls of the network's modules in a forward of the trial's tokens, in float32."""
    calls: dict[torch.nn.Module, list[_Call]] = defaultdict(list)

    def note(module: torch.nn.Module, given: Any, named: dict[str, Any], output: Any) -> None:
        calls[module].append(_Call(given, named, output))

    with ExitStack() as stack:
        for part in model.network.modules():
            hook = part.register_forward_hook(note, with_kwargs=True)
            stack.callback(hook.remove)
        stack.enter_context(whole_in_float32(model.network, model.blocks))
        model.logits(model.hidden_states(model.embed(trial_ids(model))))
    return calls


def _layer_calls(model: LanguageModel) -> list[_Call]:
    """Return the calls of the decoder layers in a forward of the trial's tokens, in float32."""
    with torch.no_grad():
        calls = _module_calls(model)
    return [calls[block][0] for block in model.blocks]


def _kind(part: torch.nn.Module, calls: list[_Call]) -> str:
    """Tell whether a module is a norm or an activation; nothing if it is something else."""
    if not calls or next(part.children(), None) is not None:
        return ""
    inputs, output = calls[0].given[:1], calls[0].output
    if len(calls[0].given) != 1 or calls[0].named or not isinstance(output, torch.Tensor):
        return ""
    (x,) = inputs
    if not x.is_floating_point() or x.shape != output.shape or close(x, output, 1e-6):
        return ""
    if close(part(1000 * x), part(2000 * x), tolerance=1e-3):  # whatever it adds to the statistic
        return "norm"
    pointwise = close(part(x.flip(-1)), output.flip(-1), tolerance=1e-5)
    return "activation" if pointwise and not part(torch.zeros_like(x)).any() else ""


def _fits(form: _NormForm, part: torch.nn.Module, call: _Call) -> bool:
    """Tell whether a norm is of a form."""
    if getattr(part, "weight", None) is None and form.weight is not _no_weight:
        return False
    return close(call.output, form.linear(part, call.given[0], call.output), tolerance=1e-4)


def _is_given(calls: list[_Call], tensor: torch.Tensor) -> bool:
    """Tell whether a module without parts was called with a tensor."""
    return any(
        isinstance(given, torch.Tensor)
        and given.data_ptr() == tensor.data_ptr()
        and given.shape == tensor.shape
        for call in calls
        for given in call.given
    )


def _is_gated(
    block: torch.nn.Module, activation: torch.nn.Module, call: _Call, activated: list[torch.Tensor]
) -> bool:
    """Tell whether a block is affine in its input and in its activated gate, and needs both."""

    def output(scale: float, gate_scale: float) -> torch.Tensor:
        gates = (gate_scale * gate for gate in activated)
        hook = activation.register_forward_hook(lambda *_: next(gates))
        try:
            return block(scale * call.given[0], *call.given[1:], **call.named)
        finally:
            hook.remove()

    with computing_in_float32(block):
        corners = [[output(x, gate) for gate in (0, 1, 2)] for x in (0, 1, 2)]
    affine_in_gate = all(close(b - a, c - b, 1e-3) for a, b, c in corners)
    affine_in_input = all(close(b - a, c - b, 1e-3) for a, b, c in zip(*corners, strict=True))
    multiplied = not close(corners[1][1], corners[0][1], 1e-3)
    return affine_in_gate and affine_in_input and multiplied


@contextmanager
def _biases_of(block: torch.nn.Module) -> Iterator[list[torch.nn.Parameter]]:
    """Let a layer's biases have gradients for a while."""
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
    call: _Call,
    probe: AttentionProbe | None,
    biases: list[torch.nn.Parameter],
) -> tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]:
    """Run a layer once more; return its output, gradients, and the direction they are taken in.

    It is what the layer adds to its input, so that a small addition counts beside a large input.
    """
    hidden = call.hidden.detach().requires_grad_(True)
    named = {**call.named, "probe": probe}
    if call.given:
        output = block(hidden, *call.given[1:], **named)
    else:
        output = block(**{**named, "hidden_states": hidden})
    output = output[0] if isinstance(output, tuple) else output
    direction = (output - hidden).detach()
    inputs = [hidden, *biases]
    by_input = torch.autograd.grad((output * direction).sum(), inputs, allow_unused=True)
    gradients = [
        torch.zeros_like(at) if by is None else by for at, by in zip(inputs, by_input, strict=True)
    ]
    return output.detach(), gradients, direction
