"""A byte-exact simulation of limited GPU memory."""

from __future__ import annotations

import math
import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Memory(TorchDispatchMode):
    """Counts the bytes of live tensors that were created inside, including backward passes.

    Args:
        limit: bytes; beyond it, torch's out-of-memory error is raised.

    Attributes:
        peak: largest number of bytes alive at once.
    """

    def __init__(self, limit: float = math.inf) -> None:
        super().__init__()
        self.limit = limit
        self.peak = 0
        self._held: dict[int, int] = {}  # bytes, by storage

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation and count the bytes of its outputs."""
        output = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._held:
                    self._held[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self._held.pop, storage._cdata)
        if self.held > self.limit:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self.peak = max(self.peak, self.held)
        return output

    @property
    def held(self) -> int:
        """Number of bytes alive now."""
        return sum(self._held.values())
