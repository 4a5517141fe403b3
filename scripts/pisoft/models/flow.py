"""Information flow inside a decoder layer: which parts of the residual stream come from where.

Shapes: T tokens, S chosen positions, H query heads, D head width, d hidden width.
"""

from __future__ import annotations

from typing import Any

import torch

from pisoft.models.layers import LayerCall
from pisoft.models.precision import at_least_float32, computing_in_float32

FLOOR = 1e-9  # smallest proximity, as a share of the norm of the sum: rows can always be normalised


def attention_shares(
    call: LayerCall, sample: int, count: int, length: int, token_budget: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which share of the residual stream behind attention each part of it has.

    The parts of the sum y behind attention are the residual, and A_hj·W_O^h·v_j for every head h
    and key j. Values are those that the model uses, a bias of theirs included; a bias of the output
    projection belongs to no token and is no part. A part z has the proximity
    max(ε, ‖y‖₁ − ‖y − z‖₁), ε = 1e-9·‖y‖₁, and its share is that over the sum of all proximities.
    The share of a key is the sum over heads (Ferrando and Voita 2024, Section 2).

    Args:
        call: a layer that :func:`~pisoft.models.layers.layer_output` computes.
        count: how many of the sample's chosen positions to look at, from the first on.
        token_budget: vectors of the hidden width that a block of parts may hold.

    Returns:
        Shares of the keys (count, length) and of the residual (count,), which sum to one.
    """
    layer: Any = call.layer
    project = layer.self_attn.o_proj
    residual = call.residual[sample, :count]  # (S, d)
    with computing_in_float32(project):
        after = residual + project(call.attended[sample, :count])
        weight = _weight(project, call.attended.shape[-1])
    sign, size = torch.copysign(torch.ones_like(after), after), after.abs()
    floor = FLOOR * size.sum(dim=-1)  # (S,)

    positions = call.positions[sample, :count]
    row = call.inputs.sample(sample, length).rows(positions[None])
    maps = at_least_float32(row.probabilities()[0])  # (H, S, T)
    values = at_least_float32(row.per_query_head(row.value)[0])  # (H, T, D)
    rows = max(1, token_budget // length)
    blocks = [slice(start, start + rows) for start in range(0, count, rows)]
    last = positions.tolist()
    ends = [max(last[block]) + 1 for block in blocks]
    of_keys = torch.zeros_like(maps[0])
    heads = weight.T.unflatten(0, values.shape[::2])  # (H, D, d)
    for attention, value, head in zip(maps, values, heads, strict=True):
        written = value @ head  # (T, d)
        for block, end in zip(blocks, ends, strict=True):
            parts = attention[block, :end, None] * written[:end] * sign[block, None]
            proximities = _proximities(parts, size[block, None])
            of_keys[block, :end] += proximities.maximum(floor[block, None])
    of_keys = of_keys.masked_fill(~row.visible().reshape(of_keys.shape), 0)
    of_residual = _proximities(residual * sign, size).maximum(floor)
    total = of_keys.sum(dim=-1) + of_residual
    return of_keys / total[:, None], of_residual / total


def _proximities(parts: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """Return ‖y‖₁ − ‖y − z‖₁ of parts z (…, d), given z·sign(y) and |y|.

    A channel gives |y| − |y − z| = min(z·sign(y), 2|y| − z·sign(y)), which does not cancel.
    """
    return torch.minimum(parts, 2 * size - parts).sum(dim=-1)


def _weight(linear: Any, width: int) -> torch.Tensor:
    """Return the weights (out, width) of a linear layer, of a quantised one by what it gives."""
    if linear.weight.is_floating_point():
        return at_least_float32(linear.weight.detach())
    unit = torch.eye(width, device=linear.weight.device)
    return (linear(unit) - linear(torch.zeros_like(unit[:1]))).T
