"""A fake GPU: it computes on the CPU, but rejects operations that mix tensors of both devices."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")  # needs no hardware; its tensors have values only here
ACROSS = {"aten::_to_copy", "aten::copy_", "aten::to"}  # from one device to the other
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
WAITING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::masked_select"}
# Errors that torch raises when a GPU is out of memory.
ERRORS = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA`"),
    RuntimeError("CUDA driver error: out of memory"),
    RuntimeError("Triton Error [CUDA]: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
)


class FakeGpu(TorchDispatchMode):
    """A context in which tensors of :data:`DEVICE` have values.

    Args:
        error: raised once by an operation on the device.
        at: number of that operation.

    Attributes:
        operations: number of operations on the device so far.
        waits: number of times the CPU waited for values.
    """

    def __init__(self, error: Exception | None = None, at: int = 0) -> None:
        super().__init__()
        self.operations = self.waits = 0
        self._error, self._at = error, at
        self._stack = ExitStack()

    def __enter__(self) -> FakeGpu:
        # Tensors of inference mode cannot be wrapped.
        self._stack.enter_context(patch.object(torch._C, "_InferenceMode", _no_grad))
        self._stack.enter_context(_Conversions())
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._stack.close()

    def put(self, network: torch.nn.Module) -> None:
        """Move parameters and buffers to the device."""
        for module in network.modules():
            for name, tensor in {**module._buffers, **module._parameters}.items():
                if isinstance(tensor, torch.nn.Parameter):
                    module._parameters[name] = torch.nn.Parameter(_Tensor(tensor.data), False)
                    module._parameters[name].values = tensor.data
                elif tensor is not None:
                    module._buffers[name] = _Tensor(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation on the CPU, and return its output on the device that a GPU would use."""
        name, leaves = func._schema.name, tree_leaves((args, kwargs))
        here = [leaf for leaf in leaves if isinstance(leaf, _Tensor)]
        asked = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
        device = asked[0] if asked else DEVICE if here else torch.device("cpu")
        if here:
            self._note(name, device)
            operands = (args[0], args[2:]) if name in INDEXED else leaves
            if name not in ACROSS and any(map(_is_elsewhere, tree_leaves(operands))):
                raise RuntimeError(f"Expected all tensors to be on the same device: {name}")
        with _disable_current_modes():
            output = func(*tree_map(_on_cpu, args), **tree_map(_on_cpu, kwargs or {}))
        if device.type == "cpu" or (name == "aten::copy_" and not isinstance(args[0], _Tensor)):
            return output
        same = {id(tensor.values): tensor for tensor in here}  # of in-place operations
        return tree_map(lambda leaf: same[id(leaf)] if id(leaf) in same else _put(leaf), output)

    def _note(self, name: str, device: torch.device) -> None:
        self.operations += 1
        self.waits += name in WAITING or device.type == "cpu"
        if self._error is not None and self.operations >= self._at:
            error, self._error = self._error, None
            raise error


class _Tensor(torch.Tensor):
    """A tensor on the device."""

    values: torch.Tensor  # on the CPU

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> _Tensor:
        layout = values.size(), values.stride(), values.storage_offset()
        tensor = torch.Tensor._make_wrapper_subclass(
            cls, *layout, dtype=values.dtype, device=DEVICE
        )
        tensor.values = values
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: Any) -> Any:
        raise RuntimeError(f"{func} on a tensor outside its FakeGpu context")


class _Conversions(TorchFunctionMode):
    """Tensor conversions that dispatch modes do not see."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.tensor and kwargs.get("device") is not None:
            return torch.tensor(*args, **kwargs | {"device": None}).to(kwargs["device"])
        if not args or not isinstance(args[0], _Tensor):
            return func(*args, **kwargs)
        tensor, *others = args
        if func is torch.Tensor.tolist:
            return tensor.cpu().tolist()
        if func is torch.Tensor.data_ptr:
            return tensor.values.data_ptr()
        if func == torch.Tensor.data.__set__:
            tensor.values = others[0].values
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            key = others[0] if isinstance(others[0], tuple) else (others[0],)
            others[0] = tuple(
                _Tensor(torch.tensor(one)) if isinstance(one, list | range) else one for one in key
            )
        return func(tensor, *others, **kwargs)


def _no_grad(mode: bool) -> Any:
    return torch.no_grad() if mode else nullcontext()


def _put(leaf: Any) -> Any:
    return _Tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf


def _is_elsewhere(leaf: Any) -> bool:
    """Return whether an operand is a CPU tensor other than a scalar, which a GPU would accept."""
    return isinstance(leaf, torch.Tensor) and not isinstance(leaf, _Tensor) and leaf.dim() > 0


def _on_cpu(leaf: Any) -> Any:
    if isinstance(leaf, torch.device):
        return torch.device("cpu")
    if isinstance(leaf, _Tensor):
        return leaf.values
    assert getattr(leaf, "device", None) != DEVICE, "a tensor that bypassed the dispatch mode"
    return leaf
