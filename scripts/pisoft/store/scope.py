"""The perturbable tokens of a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pisoft.config.base import Scope


def perturbable_positions(prompt: Mapping[str, Any], scope: Scope) -> np.ndarray:
    """Return the prompt positions that a perturbation may change under a scope, (m,)."""
    if scope == "all":
        return np.arange(len(prompt["input_ids"]))
    if scope == "all_but_bos":
        return np.flatnonzero(np.logical_not(prompt["bos_mask"]))
    return np.flatnonzero(prompt["content_mask" if scope == "content" else "user_mask"])
