"""Numerics above the type of a model's weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
                _widen(stack, part)
        yield


@contextmanager
def whole_in_single(network: torch.nn.Module, layers: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Let a network compute in float32 at least, with memory for its largest part besides.

    Its layers, and each module outside of them, are widened while they run and no longer.
    """
    parts = {layer: list(layer.modules()) for layer in layers}
    inside = {part for of_layer in parts.values() for part in of_layer}
    parts |= {part: [part] for part in network.modules() if part not in inside}
    running: list[ExitStack] = []  # a module may run inside another, or inside itself

    def widen(module: torch.nn.Module, _: object) -> None:
        running.append(ExitStack())
        for part in parts[module]:
            _widen(running[-1], part)

    def narrow(*_: object) -> None:
        running.pop().close()

    with ExitStack() as stack:
        for module in parts:
            stack.callback(module.register_forward_pre_hook(widen).remove)
            stack.callback(module.register_forward_hook(narrow, always_call=True).remove)
        yield


def _widen(stack: ExitStack, part: torch.nn.Module) -> None:
    """Widen what a module holds itself until the stack is left."""
    if hasattr(part, "compute_dtype"):  # bitsandbytes
        _set(stack, part, "compute_dtype", torch.float32)
        return
    for parameter in part.parameters(recurse=False):
        if parameter.dtype in (torch.float16, torch.bfloat16):
            _set(stack, parameter, "data", at_least_single(parameter.data))


def _set(stack: ExitStack, owner: object, name: str, value: object) -> None:
    """Set an attribute until the stack is left."""
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)
