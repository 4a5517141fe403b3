"""Inseq's value zeroing, fixed: it takes the output of a decoder layer for a tuple.

Since transformers 5 it is a tensor. What is kept of it here is not rounded to float32, so that a
float64 model is compared as such; the rest of the method, and what it costs, stays as it is.
"""

from __future__ import annotations

from typing import Any

import torch


def tensor_states_hook(self: Any, block_idx: int, hidden_state_idx: int = 0) -> Any:
    """Stand in for `get_states_extract_and_patch_hook` of `inseq.attr.feat.ops.ValueZeroing`."""

    def keep_and_restore(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        self.corrupted_block_output_states[block_idx] = output.clone().detach().cpu()
        return self.clean_block_output_states[block_idx].to(output.device)

    return keep_and_restore
