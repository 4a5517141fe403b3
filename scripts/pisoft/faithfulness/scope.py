"""Which tokens of a prompt a perturbation may touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pisoft.config.base import Scope


def perturbable_positions(prompt: Mapping[str, Any], scope: Scope) -> np.ndarray:
    """Return the prompt positions that a scope lets a perturbation touch, (m,)."""
    masks = {
        "content": prompt["content_mask"],
        "user_turn": prompt["user_mask"],
        "all_but_bos": [not bos for bos in prompt["bos_mask"]],
        "all": [True] * len(prompt["input_ids"]),
    }
    return np.flatnonzero(masks[scope])
