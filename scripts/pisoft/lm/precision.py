"""Numerics above the type of a model's weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


def at_least_single(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float32, or as it is if its type is wider."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def close(first: torch.Tensor, second: torch.Tensor, tolerance: float) -> bool:
    """Return whether tensors differ by no more than a share of their largest finite magnitude.

    What is not finite must be so in both.
    """
    scale = float(first.abs().nan_to_num(0, 0).max())
    return torch.allclose(first, second, rtol=0, atol=tolerance * scale, equal_nan=True)


@contextmanager
def computing_in_single(*modules: torch.nn.Module) -> Iterator[None]:
    """Let modules compute in float32 at least, also with 16-bit or 4-bit weights.

    16-bit weights are widened while the context is open; 4-bit ones are dequantised to float32 in
    every call. Inputs must be float32 as well.
    """
    with ExitStack() as stack:
        for module in modules:
            for part in module.modules():
                if hasattr(part, "compute_dtype"):  # bitsandbytes
                    _set(stack, part, "compute_dtype", torch.float32)
                    continue
                for parameter in part.parameters(recurse=False):
                    _set(stack, parameter, "data", at_least_single(parameter.data))
        yield


def _set(stack: ExitStack, owner: object, name: str, value: object) -> None:
    """Set an attribute until the stack is left."""
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)
