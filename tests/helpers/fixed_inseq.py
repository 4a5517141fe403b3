"""A fix of Inseq's value zeroing, which expects the output of a decoder layer to be a tuple.

Since transformers 5 it is a tensor. The fix does not round it to float32, so that float64 models
can be compared; the rest of the method and its cost are unchanged.
"""

from __future__ import annotations

from typing import Any

import torch


def tensor_states_hook(self: Any, block_idx: int, hidden_state_idx: int = 0) -> Any:
    """Replace `get_states_extract_and_patch_hook` of `inseq.attr.feat.ops.ValueZeroing`."""

    def keep_and_restore(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        self.corrupted_block_output_states[block_idx] = output.clone().detach().cpu()
        return self.clean_block_output_states[block_idx].to(output.device)

    return keep_and_restore
