"""Reference for modified backward passes: operation by operation, on a network's eager forward.

It intercepts every torch function that the network calls. It does not depend on module types and
uses none of our hooks or probes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from helpers.eager_reference import logits
from helpers.random_models import VOCABULARY

UNKNOWN = 0  # id in the numbered tokenizer, which has no token for a space


def part(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """Return the tensor with its gradient scaled by a factor."""
    return factor * tensor + (1 - factor) * tensor.detach()


@dataclass
class Operations(TorchFunctionMode):
    """Modifies derivatives of roots, activations, products with activations, and the softmax.

    Args:
        query_key, value: gradient factors inside attention.
        gate, up: gradient factors in a product with an activation; 0: none.
        straight: activations are z times a constant.
        tempered: the softmax is differentiated at temperature 2.
    """

    query_key: float
    value: float
    gate: float
    up: float
    straight: bool
    tempered: bool = False
    activated: list[torch.Tensor] = field(default_factory=list)
    in_attention: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def attend(
        self,
        eager: Any,
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: Any,
        **more: Any,
    ) -> torch.Tensor:
        """Call eager attention with scaled gradients of its inputs."""
        query, key = part(query, self.query_key), part(key, self.query_key)
        value = part(value, self.value)
        self.in_attention = True
        if (
            getattr(module, "sinks", None) is not None
        ):  # not every class treats sinks as logits of one softmax, e.g. Granite SWA
            group = query.shape[1] // key.shape[1]
            key, value = (one.repeat_interleave(group, dim=1) for one in (key, value))
            scores = query @ key.transpose(2, 3) * more["scaling"] + mask
            sinks = module.sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
            maps = torch.nn.functional.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)
            output = (maps[..., :-1] @ value).transpose(1, 2).contiguous()
        else:
            output, _ = eager(module, query, key, value, mask, **more)
        self.in_attention = False
        return output

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        kwargs = kwargs or {}
        name = function.__name__
        if name == "layer_norm":
            return self._layer_norm(*args, **kwargs)
        if name == "mul" and (
            gates := [a for a in args if any(a is one for one in self.activated)]
        ):
            (up,) = (a for a in args if a is not gates[0])
            return part(part(gates[0], self.gate) * up, self.up)
        output = function(*args, **kwargs)
        if name == "rsqrt" or (name == "pow" and args[1] == -0.5):
            return output.detach()
        if name == "softmax" and self.tempered and self.in_attention:
            half = (args[0].to(output.dtype) / 2).softmax(-1)
            return output.detach() + 2 * (half - half.detach())
        if self.in_attention or output is NotImplemented:
            return output
        if name in ("softmax", "sigmoid"):  # of a router
            return output.detach()
        if name == "tanh" and self.straight and output.shape[-1] != VOCABULARY:  # of GELU
            return output.detach()
        if name in ("silu", "gelu", "relu"):
            if self.straight:
                z = args[0]  # zero for experts that the router skips
                output = z * (output / z.where(z != 0, 1)).detach()
            self.activated.append(output)
        return output

    @staticmethod
    def _layer_norm(
        x: torch.Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> torch.Tensor:
        spread = x.var(dim=-1, correction=0, keepdim=True)
        normed = (x - x.mean(dim=-1, keepdim=True)) / (spread + eps).sqrt().detach()
        normed = normed if weight is None else normed * weight
        return normed if bias is None else normed + bias


def scores(
    network: PreTrainedModel, ids: list[int], target: int, baseline: int | None = None, **rules: Any
) -> torch.Tensor:
    """Return (x − b) · g of every token, (T,); b is 0 or the embedding of a token."""
    table = network.get_input_embeddings()
    embeddings = table(torch.tensor([ids])).detach().requires_grad_(True)
    with torch.enable_grad(), Operations(**rules) as operations:
        value = logits(network, embeddings, modified=operations)[target]
    (gradients,) = torch.autograd.grad(value, embeddings)
    start = 0 if baseline is None else table(torch.tensor([[baseline]]))
    return ((embeddings - start) * gradients).sum(dim=-1)[0].detach()


MODIFIED = {
    "attn_lrp": partial(scores, query_key=0.25, value=0.5, gate=1, up=0.5, straight=True),
    "cp_lrp": partial(scores, query_key=0, value=1, gate=0, up=1, straight=True),
    "gim": partial(
        scores,
        baseline=UNKNOWN,
        query_key=0.25,
        value=0.5,
        gate=1,
        up=0.5,
        straight=False,
        tempered=True,
    ),
}
