"""Keys and values of an unperturbed prompt prefix, computed once and shared by all draws."""

from __future__ import annotations

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer


class _FrozenLayer(DynamicLayer):
    """A cache layer that lends its keys and values but never stores new ones."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values  # (1, G, P, D)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return prefix and new states joined along the sequence, (B, G, P + T, D)."""
        batch = key_states.shape[0]
        keys = torch.cat([self.keys.expand(batch, -1, -1, -1), key_states], dim=-2)
        values = torch.cat([self.values.expand(batch, -1, -1, -1), value_states], dim=-2)
        return keys, values


def frozen_cache(filled: DynamicCache) -> Cache:
    """Turn the cache of a forward pass over one prefix into one that any batch can read."""
    return Cache(layers=[_FrozenLayer(keys, values) for keys, values, _ in filled])
