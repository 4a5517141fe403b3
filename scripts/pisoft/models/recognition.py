"""Recognition of a decoder's norms, activations and gated feed-forward blocks.

Parts are recognised by their outputs on a dozen tokens, not by their class.
Shapes: d hidden width.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch

from pisoft.errors import BenchmarkError
from pisoft.models.model import LanguageModel
from pisoft.models.precision import at_least_float32, close, computing_in_float32
from pisoft.models.trial import trial_ids


@dataclass(frozen=True)
class NormForm:
    """A norm y = (x − mean) · w / statistic + b; the mean is 0 unless `centred`."""

    centred: bool
    offset: float | None  # w minus the stored weight; None: there is no w

    def linear(
        self,
        module: torch.nn.Module,
        inputs: torch.Tensor,
        output: torch.Tensor,
        rows: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the output (…, d) with a constant statistic, float32 or better.

        Args:
            inputs, output: of the norm; they determine the statistic.
            rows: other inputs; None: the same.
        """
        bias, inputs = getattr(module, "bias", None), at_least_float32(inputs)
        rows, output = inputs if rows is None else rows, at_least_float32(output)
        if bias is None:
            return self.from_parts(module, rows, inputs, output)
        bias = at_least_float32(bias)
        return self.from_parts(module, rows, inputs, output - bias) + bias

    def from_parts(
        self,
        module: Any,
        parts: torch.Tensor,
        inputs: torch.Tensor,
        output: torch.Tensor,
    ) -> torch.Tensor:
        """Return the outputs (…, d) of parts of the inputs, with the statistic held constant.

        The statistic is inferred from the output and includes the norm's epsilon.

        Args:
            parts: summands of the inputs.
            inputs, output: of the norm, the output less the bias; float32 or better.
        """
        weight = 1.0 if self.offset is None else at_least_float32(module.weight) + self.offset
        whole = self._around_mean(inputs) * weight
        squares = whole.square().sum(dim=-1, keepdim=True)
        inverse = (whole * output).sum(dim=-1, keepdim=True) / squares.where(squares > 0, 1)
        return self._around_mean(parts) * (weight * inverse.detach())

    def _around_mean(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(dim=-1, keepdim=True) if self.centred else x


# RMSNorm and LayerNorm; weights are stored as they are, minus one (Gemma), or do not exist.
NORM_FORMS = [NormForm(*form) for form in product((False, True), (0, 1, None))]


@dataclass(frozen=True)
class ModuleCall:
    """Arguments and output of one call of a module."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any

    @property
    def hidden(self) -> torch.Tensor:
        """The input of a decoder layer."""
        return self.args[0] if self.args else self.kwargs["hidden_states"]


@dataclass
class RecognisedParts:
    """The parts of a decoder that are neither linear nor attention."""

    norms: dict[torch.nn.Module, NormForm] = field(default_factory=dict)  # also outside the layers
    activations: list[torch.nn.Module] = field(default_factory=list)  # pointwise leaf modules
    gates: list[torch.nn.Module] = field(default_factory=list)  # activations before a product
    gated: list[torch.nn.Module] = field(default_factory=list)  # blocks that contain the product
    routers: list[torch.nn.Module] = field(default_factory=list)  # return the experts' weights


@torch.no_grad()
def recognised_parts(model: LanguageModel) -> RecognisedParts:
    """Return the recognised parts of a model, tested in float32.

    Raises:
        BenchmarkError: a norm or a feed-forward block has an unsupported form.
    """
    recognised = RecognisedParts()
    calls = module_calls(model)
    layers = [(layer_name(model, n), list(block.modules())) for n, block in enumerate(model.blocks)]
    inside = {part for _, parts in layers for part in parts}
    outside = [part for part in model.network.modules() if part not in inside]
    for layer, parts in [*layers, ("", outside)]:
        activations = []
        for part in parts:
            with computing_in_float32(part):
                kind = _kind(part, calls[part])
                if kind == "norm":
                    recognised.norms[part] = _form(part, calls[part][0])
                elif kind == "activation":
                    activations.append(part)
        if layer and not activations:
            raise BenchmarkError(f"{layer} has no activation module, which the rules need")
        recognised.activations += activations
        recognised.routers += [part for part in parts if _is_router(part, calls[part], activations)]
        for activation in activations:
            parent = next(part for part in parts if activation in part.children())
            _recognise_block(recognised, layer, parent, activation, calls)
    return recognised


def _recognise_block(
    recognised: RecognisedParts,
    layer: str,
    block: torch.nn.Module,
    activation: torch.nn.Module,
    calls: dict[torch.nn.Module, list[ModuleCall]],
) -> None:
    """Record a gated feed-forward block; raise if it is neither gated nor plain."""
    activated = [call.output for call in calls[activation]]  # one, or one per expert
    if any(_is_given(calls[part], output) for part in block.modules() for output in activated):
        return  # the next linear layer reads it directly, without a product
    if len(calls[block]) != 1 or not _is_gated(block, activation, calls[block][0], activated):
        raise BenchmarkError(
            f"{layer} uses its {type(activation).__name__} in another form than act(x) or "
            "act(gate) · up between linear layers, for which there are no rules"
        )
    recognised.gates.append(activation)
    recognised.gated.append(block)


def layer_name(model: LanguageModel, number: int) -> str:
    """Return a decoder layer's name in messages."""
    return f"decoder layer {number} ({type(model.blocks[number]).__name__})"


def module_calls(model: LanguageModel) -> dict[torch.nn.Module, list[ModuleCall]]:
    """Return all calls of the network's modules on the trial's tokens, in float32."""
    calls: dict[torch.nn.Module, list[ModuleCall]] = defaultdict(list)

    def note(module: torch.nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        calls[module].append(ModuleCall(args, kwargs, output))

    with ExitStack() as stack:
        for part in model.network.modules():
            stack.enter_context(part.register_forward_hook(note, with_kwargs=True))
        stack.enter_context(model.in_float32())
        model.logits(model.hidden_states(model.embed(trial_ids(model))))
    return calls


def norm_form(part: torch.nn.Module, call: ModuleCall) -> NormForm | None:
    """Return the form of a norm, or None for other modules; raise if the form is unknown."""
    return _form(part, call) if _kind(part, [call]) == "norm" else None


def _kind(part: torch.nn.Module, calls: list[ModuleCall]) -> str:
    """Return 'norm', 'activation', or an empty string for other modules."""
    if not calls or next(part.children(), None) is not None:
        return ""
    inputs, output = calls[0].args[:1], calls[0].output
    if len(calls[0].args) != 1 or calls[0].kwargs or not isinstance(output, torch.Tensor):
        return ""
    (x,) = inputs
    if not x.is_floating_point() or x.shape != output.shape or close(x, output, 1e-6):
        return ""
    if close(part(1000 * x), part(2000 * x), tolerance=1e-3):  # epsilon is negligible
        return "norm"
    pointwise = close(part(x.flip(-1)), output.flip(-1), tolerance=1e-5)
    return "activation" if pointwise and not part(torch.zeros_like(x)).any() else ""


def _is_router(
    part: torch.nn.Module, calls: list[ModuleCall], activations: list[torch.nn.Module]
) -> bool:
    """Return whether a part has no activations and returns several tensors."""
    outputs = calls[0].output if calls else None
    several = outputs if isinstance(outputs, tuple) and len(outputs) > 1 else ()
    return (
        bool(several)
        and not {*part.modules()} & {*activations}
        and all(isinstance(output, torch.Tensor) for output in several)
    )


def _form(part: torch.nn.Module, call: ModuleCall) -> NormForm:
    """Return the form of a norm; raise if it is unknown."""
    weighted = getattr(part, "weight", None) is not None
    for form in NORM_FORMS:
        if (weighted or form.offset is None) and close(
            call.output, form.linear(part, call.args[0], call.output), tolerance=1e-4
        ):
            return form
    raise BenchmarkError(f"norm {type(part).__name__} is neither RMSNorm nor LayerNorm")


def _is_given(calls: list[ModuleCall], tensor: torch.Tensor) -> bool:
    """Return whether a module was called with a tensor."""
    return any(
        isinstance(arg, torch.Tensor)
        and arg.data_ptr() == tensor.data_ptr()
        and arg.shape == tensor.shape
        for call in calls
        for arg in call.args
    )


def _is_gated(
    block: torch.nn.Module,
    activation: torch.nn.Module,
    call: ModuleCall,
    activated: list[torch.Tensor],
) -> bool:
    """Return whether a block is affine in its input and in its activated gate, and needs both."""

    def output(scale: float, gate_scale: float) -> torch.Tensor:
        gates = (gate_scale * gate for gate in activated)
        with activation.register_forward_hook(lambda *_: next(gates)):
            return block(scale * call.args[0], *call.args[1:], **call.kwargs)

    with computing_in_float32(block):
        corners = [[output(x, gate) for gate in (0, 1, 2)] for x in (0, 1, 2)]
    affine_in_gate = all(close(b - a, c - b, 1e-3) for a, b, c in corners)
    affine_in_input = all(close(b - a, c - b, 1e-3) for a, b, c in zip(*corners, strict=True))
    multiplied = not close(corners[1][1], corners[0][1], 1e-3)
    return affine_in_gate and affine_in_input and multiplied
