"""Which parts of a decoder are norms, activations and gated feed-forward blocks.

They are recognised by what they compute on a dozen tokens, not by their class.
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
    """A norm y = (x − mean) · w / statistic + b, the mean if `centred`, else 0."""

    centred: bool
    offset: float | None  # of w, which is stored less this; None: there is no w

    def linear(
        self,
        module: torch.nn.Module,
        inputs: torch.Tensor,
        output: torch.Tensor,
        rows: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the output (…, d) with the statistic a constant, float32 or better.

        Args:
            inputs, output: of the norm, which have that statistic.
            rows: other inputs; None: the same.
        """
        bias, inputs = getattr(module, "bias", None), at_least_float32(inputs)
        rows, output = inputs if rows is None else rows, at_least_float32(output)
        if bias is None:
            return self.of_parts(module, rows, inputs, output)
        bias = at_least_float32(bias)
        return self.of_parts(module, rows, inputs, output - bias) + bias

    def of_parts(
        self,
        module: Any,
        parts: torch.Tensor,
        inputs: torch.Tensor,
        output: torch.Tensor,
    ) -> torch.Tensor:
        """Return what parts of the inputs give, (…, d), with the statistic of the whole a constant.

        The statistic is that of the output, whatever the norm adds to it for stability.

        Args:
            parts: that sum to the inputs.
            inputs, output: of the norm, the output less the bias; float32 or better.
        """
        weight = 1.0 if self.offset is None else at_least_float32(module.weight) + self.offset
        whole = self._around_mean(inputs) * weight
        squares = whole.square().sum(dim=-1, keepdim=True)
        inverse = (whole * output).sum(dim=-1, keepdim=True) / squares.where(squares > 0, 1)
        return self._around_mean(parts) * (weight * inverse.detach())

    def _around_mean(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(dim=-1, keepdim=True) if self.centred else x


# RMSNorm and LayerNorm, whose weights, if there are any, may be stored less one, as Gemma's are.
NORM_FORMS = [NormForm(*form) for form in product((False, True), (0, 1, None))]


@dataclass(frozen=True)
class ModuleCall:
    """What a module was called with, by position and by name, and what it gave."""

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
    activations: list[torch.nn.Module] = field(default_factory=list)  # pointwise, without parts
    gates: list[torch.nn.Module] = field(default_factory=list)  # activations that a product follows
    gated: list[torch.nn.Module] = field(default_factory=list)  # blocks that hold the product
    routers: list[torch.nn.Module] = field(default_factory=list)  # which say what experts weigh


@torch.no_grad()
def recognised_parts(model: LanguageModel) -> RecognisedParts:
    """Return the parts of a model, tried in float32.

    Raises:
        BenchmarkError: a norm or a feed-forward block is of no form that is listed here.
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
    """Note whether a feed-forward block is gated; raise if it is neither that nor plain."""
    activated = [call.output for call in calls[activation]]  # one, or one for every expert
    if any(_is_given(calls[part], one) for part in block.modules() for one in activated):
        return  # the next linear layer reads it as it is: nothing is multiplied by it
    if len(calls[block]) != 1 or not _is_gated(block, activation, calls[block][0], activated):
        raise BenchmarkError(
            f"{layer} uses its {type(activation).__name__} in another form than act(x) or "
            "act(gate) · up between linear layers, for which there are no rules"
        )
    recognised.gates.append(activation)
    recognised.gated.append(block)


def layer_name(model: LanguageModel, number: int) -> str:
    """Return what messages call a decoder layer."""
    return f"decoder layer {number} ({type(model.blocks[number]).__name__})"


def module_calls(model: LanguageModel) -> dict[torch.nn.Module, list[ModuleCall]]:
    """Return all calls of the network's modules in a forward of the trial's tokens, in float32."""
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
    """Return the form of a module that is a norm; None if it is none; raise if it has no form."""
    return _form(part, call) if _kind(part, [call]) == "norm" else None


def _kind(part: torch.nn.Module, calls: list[ModuleCall]) -> str:
    """Tell whether a module is a norm or an activation; nothing if it is something else."""
    if not calls or next(part.children(), None) is not None:
        return ""
    inputs, output = calls[0].args[:1], calls[0].output
    if len(calls[0].args) != 1 or calls[0].kwargs or not isinstance(output, torch.Tensor):
        return ""
    (x,) = inputs
    if not x.is_floating_point() or x.shape != output.shape or close(x, output, 1e-6):
        return ""
    if close(part(1000 * x), part(2000 * x), tolerance=1e-3):  # whatever it adds to the statistic
        return "norm"
    pointwise = close(part(x.flip(-1)), output.flip(-1), tolerance=1e-5)
    return "activation" if pointwise and not part(torch.zeros_like(x)).any() else ""


def _is_router(
    part: torch.nn.Module, calls: list[ModuleCall], activations: list[torch.nn.Module]
) -> bool:
    """Tell whether a part has no neurons and gives several tensors."""
    outputs = calls[0].output if calls else None
    several = outputs if isinstance(outputs, tuple) and len(outputs) > 1 else ()
    return (
        bool(several)
        and not {*part.modules()} & {*activations}
        and all(isinstance(output, torch.Tensor) for output in several)
    )


def _form(part: torch.nn.Module, call: ModuleCall) -> NormForm:
    """Return the form of a norm; raise if it has none of them."""
    weighted = getattr(part, "weight", None) is not None
    for form in NORM_FORMS:
        if (weighted or form.offset is None) and close(
            call.output, form.linear(part, call.args[0], call.output), tolerance=1e-4
        ):
            return form
    raise BenchmarkError(f"norm {type(part).__name__} is neither RMSNorm nor LayerNorm")


def _is_given(calls: list[ModuleCall], tensor: torch.Tensor) -> bool:
    """Tell whether a module without parts was called with a tensor."""
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
    """Tell whether a block is affine in its input and in its activated gate, and needs both."""

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
