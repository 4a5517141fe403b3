"""Computing more precisely than a model's dtype."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch.nn.functional import linear

HALF = (torch.float16, torch.bfloat16)
CHUNK = 2**22  # weights of an output head converted at a time, 16 MiB


def pin_precision() -> None:
    """Make GPU matrix products accumulate in float32 and round to 16-bit precision only once.

    Some containers enable TF32. Torch has older and newer settings for it, and refuses to read them
    if they disagree. By default, it also rounds partial sums of 16-bit products to 16-bit
    precision, in kernels that cuBLAS chooses by batch size.
    """
    backends: Any = torch.backends
    backends.fp32_precision = backends.cudnn.fp32_precision = "ieee"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    matmul: Any = backends.cuda.matmul
    matmul.allow_fp16_reduced_precision_reduction = False
    matmul.allow_bf16_reduced_precision_reduction = False


def allowed_rounding() -> dict[str, bool]:
    """Return whether shortcuts that :func:`pin_precision` disables are on, for provenance."""
    matmul: Any = torch.backends.cuda.matmul
    return {
        "allow_tf32": matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
        "allow_reduced_precision_reduction": (
            matmul.allow_fp16_reduced_precision_reduction
            or matmul.allow_bf16_reduced_precision_reduction
        ),
    }


def at_least_float32(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float32, or unchanged if its dtype is wider."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def close(first: torch.Tensor, second: torch.Tensor, tolerance: float) -> bool:
    """Return whether tensors differ by no more than a share of their largest finite magnitude.

    Values that are not finite must be equal.
    """
    scale = float(first.abs().nan_to_num(0, 0).max())
    return torch.allclose(first, second, rtol=0, atol=tolerance * scale, equal_nan=True)


def float32_head(head: torch.nn.Module | None) -> None:
    """Make an output head with 16-bit weights return float32 logits.

    Products of 16-bit numbers are exact in float32; only their sums are rounded. Rounding logits to
    half precision would move predictions more than most perturbations do. Heads with a custom
    forward, such as quantised ones, are not changed.
    """
    patched: Any = head
    if head is not None and getattr(head.forward, "__func__", None) is torch.nn.Linear.forward:
        patched.forward = partial(_linear, patched)


def _linear(head: torch.nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
    if head.weight.dtype in HALF and inputs.dtype == head.weight.dtype:
        return _LinearInSingle.apply(inputs, head.weight, head.bias)
    return torch.nn.Linear.forward(head, inputs)


class _LinearInSingle(torch.autograd.Function):
    """A frozen linear layer of 16-bit weights with float32 outputs.

    A GPU multiplies 16-bit numbers and accumulates in float32. Elsewhere, and in every backward
    pass, weights are converted chunk by chunk; the graph of plain operations would keep all of them
    in float32.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """Return float32 outputs (…, V) of 16-bit inputs (…, d), weights (V, d), biases (V,)."""
        ctx.save_for_backward(weight)
        ctx.kind = inputs.dtype
        if inputs.is_cuda:
            rows = inputs.flatten(0, -2)
            output = torch.mm(rows, weight.t(), out_dtype=torch.float32)
            output = output.view(*inputs.shape[:-1], -1)
        else:
            wide = inputs.float()
            output = torch.cat([linear(wide, part.float()) for part in _chunks(weight)], dim=-1)
        return output if bias is None else output + bias

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return the gradient (…, d) of the inputs from the outputs' gradient (…, V)."""
        (weight,), (gradient,) = ctx.saved_tensors, gradients
        chunks = _chunks(weight)
        parts = gradient.split([len(chunk) for chunk in chunks], dim=-1)
        total = gradient.new_zeros((*gradient.shape[:-1], weight.shape[1]))
        for part, chunk in zip(parts, chunks, strict=True):
            total += part @ chunk.float()
        return total.to(ctx.kind), None, None


def _chunks(weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Split weights (V, d) along the vocabulary."""
    return weight.split(max(1, CHUNK // weight.shape[1]))


@contextmanager
def computing_in_float32(*modules: torch.nn.Module) -> Iterator[None]:
    """Run modules in float32 or better, even with 16-bit or 4-bit weights.

    16-bit weights are converted while the context is open; 4-bit weights are dequantised to float32
    in every call. Inputs must be float32 as well.
    """
    with ExitStack() as stack:
        for module in modules:
            for part in module.modules():
                _widen(stack, part)
        yield


@contextmanager
def whole_in_float32(network: torch.nn.Module, layers: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Run a network in float32 or better, with extra memory for its largest part only.

    Layers, and each module outside them, are converted only while they run; the head, during the
    whole forward as well, because some classes cast its input to the dtype of its weights.
    """
    parts = {layer: list(layer.modules()) for layer in layers}
    inside = {part for modules in parts.values() for part in modules}
    parts |= {part: [part] for part in network.modules() if part not in inside}
    head = cast("Any", network).get_output_embeddings()
    parts[network] = list(filter(None, (network, head)))
    running: list[ExitStack] = []  # a module may run inside another, or inside itself

    def widen(module: torch.nn.Module, _: object) -> None:
        running.append(ExitStack())
        for part in parts[module]:
            _widen(running[-1], part)

    def narrow(*_: object) -> None:
        running.pop().close()

    with ExitStack() as stack:
        for module in parts:
            stack.enter_context(module.register_forward_pre_hook(widen))
            stack.enter_context(module.register_forward_hook(narrow, always_call=True))
        yield


def _widen(stack: ExitStack, part: torch.nn.Module) -> None:
    """Convert a module's own weights to float32 until the stack closes."""
    if hasattr(part, "compute_dtype"):  # bitsandbytes
        _set(stack, part, "compute_dtype", torch.float32)
        return
    for parameter in part.parameters(recurse=False):
        if parameter.dtype in HALF:
            _set(stack, parameter, "data", at_least_float32(parameter.data))


def _set(stack: ExitStack, owner: object, name: str, value: object) -> None:
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)
