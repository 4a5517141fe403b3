"""Information flow inside a decoder layer: each token's share of the residual stream.

Shapes: T tokens, S chosen positions, H query heads, D head width, d hidden width.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from pisoft.errors import BenchmarkError
from pisoft.models.layers import LayerCall, require_layers, visit_layers
from pisoft.models.model import LanguageModel
from pisoft.models.precision import at_least_float32, close, computing_in_float32
from pisoft.models.recognition import ModuleCall, NormForm, layer_name, norm_form
from pisoft.models.trial import trial_ids

FLOOR = 1e-9  # smallest proximity, relative to the norm of the sum: rows can always be normalised
TOLERANCE = 1e-4  # for equal tensors, relative to the largest value


@dataclass(frozen=True)
class AttentionWrite:
    """A layer's attention update of the residual stream: scale · norm(W·x + b)."""

    project: torch.nn.Module
    scale: float
    norm: torch.nn.Module | None = None
    form: NormForm | None = None  # of `norm`
    beside: bool = False  # parallel to the feed-forward block, which does not read the update

    def added(self, attended: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the update (S, d), and the factors of the channels of W·x in it (S, d).

        The norm's statistic is held constant at its value for the whole x.

        Args:
            attended: attention output x before the projection, (S, H·D).
        """
        projected = self.project(attended)
        if self.norm is None or self.form is None:
            return self.scale * projected, torch.full_like(projected, self.scale)
        output = at_least_float32(self.norm(projected))
        ones = torch.ones_like(projected)
        factors = self.form.from_parts(self.norm, ones, projected, output)
        return self.scale * output, self.scale * factors


@torch.no_grad()
def attention_writes(model: LanguageModel) -> list[AttentionWrite]:
    """Return the attention update of each decoder layer, recognised on a dozen tokens.

    Raises:
        BenchmarkError: an update has another form, or layers cannot be run individually.
    """
    require_layers(model)
    writes: list[AttentionWrite] = []

    def recognise(call: LayerCall) -> None:
        write = _recognised(call)
        if write is None:
            raise BenchmarkError(
                f"{layer_name(model, call.inputs.layer)}: the output of attention does not enter "
                "the residual stream on its own, after a linear layer and at most an RMSNorm"
            )
        writes.append(write)

    with model.in_float32():
        embeddings = model.embed(trial_ids(model))
        positions = torch.arange(embeddings.shape[1], device=model.device)[None]
        visit_layers(model, embeddings, positions, recognise)
    return writes


def _recognised(call: LayerCall) -> AttentionWrite | None:
    """Return the projection, norm and scale between attention and residual; None: another form.

    The next module must read the layer's input plus the update. With a feed-forward block parallel
    to attention, the layer's output must be affine in the update instead.
    """
    entered: list[tuple[torch.nn.Module, Any]] = []
    outputs: dict[torch.nn.Module, Any] = {}

    def enter(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        entered.append((module, next(iter((*args, *kwargs.values())), None)))

    def leave(module: torch.nn.Module, _: Any, output: Any) -> None:
        outputs[module] = output

    with ExitStack() as stack:
        for part in call.layer.modules():
            stack.enter_context(part.register_forward_pre_hook(enter, with_kwargs=True))
            stack.enter_context(part.register_forward_hook(leave))
        call.again(lambda _, default: default())

    running = ((part, x) for part, x in entered if isinstance(x, torch.Tensor))
    readers = ((part, x) for part, x in running if _equal(x, call.attended))
    project = next((part for part, x in readers if _is_affine(part, x)), None)
    if project is None:
        return None
    if scale := _scale_beside(call, project):
        return AttentionWrite(project, scale, beside=True)
    written, norm, form = at_least_float32(outputs[project]), None, None
    for part, x in running:
        if _equal(x, written):
            if not _equal(outputs[part], written):  # more than dropout
                if norm is not None:
                    return None
                norm, form = part, norm_form(part, ModuleCall((x,), {}, outputs[part]))
                written = at_least_float32(outputs[part])
        elif x.shape[-1:] == written.shape[-1:] and x.numel() == written.numel():
            added = at_least_float32(x).view_as(written) - call.residual
            scale = float((added * written).sum() / written.square().sum())
            scale = 1.0 if close(added, written, TOLERANCE) else scale
            follows = scale and close(added, scale * written, TOLERANCE)
            linear = norm is None or (form is not None and not form.centred)
            return AttentionWrite(project, scale, norm, form) if follows and linear else None
    return None


def _scale_beside(call: LayerCall, project: torch.nn.Module) -> float:
    """Return the factor of a projection that a layer adds to its output; 0: it does not."""

    def output(factor: int) -> torch.Tensor:
        return call.again(call.giving(factor * call.attended))

    zero, one, two = map(output, range(3))
    projected = project(call.attended) - project(0 * call.attended)
    scale = float(((one - zero) * projected).sum() / projected.square().sum())
    affine = close(two - one, one - zero, TOLERANCE)
    return scale if affine and close(one - zero, scale * projected, TOLERANCE) else 0


def _is_affine(module: torch.nn.Module, x: torch.Tensor) -> bool:
    zero, one, two = (module(scale * x) for scale in (0, 1, 2))
    return close(two - one, one - zero, TOLERANCE)


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and close(at_least_float32(first), second, TOLERANCE)


def attention_shares(
    call: LayerCall, write: AttentionWrite, sample: int, count: int, length: int, token_budget: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the share of each part of the residual stream after attention.

    The parts of the sum y after attention are the residual, and A_hj·W_O^h·v_j for every head h
    and key j, scaled like the layer's update: by a factor, or by a norm with constant statistic.
    Values include their bias; the bias of the output projection belongs to no token and is not a
    part. A part z has the proximity max(ε, ‖y‖₁ − ‖y − z‖₁), ε = 1e-9·‖y‖₁; its share is the
    proximity over the sum of all proximities. A key's share is the sum over heads (Ferrando and
    Voita 2024, Section 2).

    Args:
        call: of the layer.
        write: the layer's attention update.
        count: number of the sample's chosen positions to use, from the first.
        token_budget: vectors of the hidden width per block of parts.

    Returns:
        Shares of the keys (count, length) and of the residual (count,), which sum to one.
    """
    residual = call.residual[sample, :count]  # (S, d)
    with computing_in_float32(*filter(None, (write.project, write.norm))):
        added, factors = write.added(call.attended[sample, :count])
        weight = _weight(write.project, call.attended)
    after = residual + added
    sign, size = torch.copysign(torch.ones_like(after), after), after.abs()
    signed = sign * factors
    floor = FLOOR * size.sum(dim=-1)  # (S,)

    positions = call.positions[sample, :count]
    row = call.inputs.sample(sample, length).rows(positions[None])
    maps = at_least_float32(row.probabilities()[0])  # (H, S, T)
    values = at_least_float32(row.per_query_head(row.value)[0])  # (H, T, D)
    rows = max(1, token_budget // length)
    blocks = [slice(start, start + rows) for start in range(0, count, rows)]
    indices = positions.tolist()
    ends = [max(indices[block]) + 1 for block in blocks]
    keys = torch.zeros_like(maps[0])  # proximities
    heads = weight.T.unflatten(0, values.shape[::2])  # (H, D, d)
    for attention, value, head in zip(maps, values, heads, strict=True):
        written = value @ head  # (T, d)
        for block, end in zip(blocks, ends, strict=True):
            parts = attention[block, :end, None] * written[:end] * signed[block, None]
            proximities = _proximities(parts, size[block, None])
            keys[block, :end] += proximities.maximum(floor[block, None])
    keys = keys.masked_fill(~row.visible().reshape(keys.shape), 0)
    remaining = _proximities(residual * sign, size).maximum(floor)
    total = keys.sum(dim=-1) + remaining
    return keys / total[:, None], remaining / total


def _proximities(parts: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """Return ‖y‖₁ − ‖y − z‖₁ of parts z (…, d), given z·sign(y) and |y|.

    Each channel adds |y| − |y − z| = min(z·sign(y), 2|y| − z·sign(y)), which does not cancel.
    """
    return torch.minimum(parts, 2 * size - parts).sum(dim=-1)


def _weight(linear: Any, inputs: torch.Tensor) -> torch.Tensor:
    """Return the weights (out, width) of a linear layer; other modules are run on unit vectors.

    `inputs` (…, width) determine the dtype and device of the unit vectors.
    """
    if isinstance(linear, torch.nn.Linear) and linear.weight.is_floating_point():
        return at_least_float32(linear.weight.detach())
    unit = torch.eye(inputs.shape[-1], dtype=inputs.dtype, device=inputs.device)
    return (linear(unit) - linear(torch.zeros_like(unit[:1]))).T
