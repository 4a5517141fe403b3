"""Distances between next-token distributions (paper Eq. 2-3)."""

from __future__ import annotations

import torch


def root_probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Return √softmax(logits) over the last axis, without leaving log space in between."""
    return (logits.log_softmax(dim=-1) / 2).exp()


def hellinger(p_roots: torch.Tensor, q_roots: torch.Tensor) -> torch.Tensor:
    """Return the Hellinger distance ‖√P − √Q‖₂ / √2 over the last axis, in [0, 1].

    The difference is taken before squaring: 1 − Σ√(pq) would lose every digit of a small distance
    in float32. H² and the Bhattacharyya coefficient 1 − H² follow from it.

    Args:
        p_roots: root probabilities (…, V), float32 or better; see :func:`root_probabilities`.
        q_roots: the same, broadcast against the first.
    """
    return torch.linalg.vector_norm(p_roots - q_roots, dim=-1) / 2**0.5


def total_variation(p_roots: torch.Tensor, q_roots: torch.Tensor) -> torch.Tensor:
    """Return the total variation distance Σ|p − q| / 2, in [0, 1], as :func:`hellinger` does."""
    return ((p_roots - q_roots).abs() * (p_roots + q_roots)).sum(dim=-1) / 2
