"""Raw attention of the last decoder layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod

if TYPE_CHECKING:
    import torch

    from pisoft.lm.model import Batch, LanguageModel


class Attention(AttributionMethod):
    """Attention probabilities of the predicting position, last layer, mean over heads."""

    label = "Attention"
    family = "attention"
    reference = "Bahdanau et al. (2015), Neural machine translation by jointly learning to align"

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward serves all steps."""
        return 1

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return attention rows, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.lm.attention import AttentionRecorder
        from pisoft.lm.precision import at_least_single

        last = model.layers - 1
        recorder = AttentionRecorder(layers={last})
        with torch.inference_mode():
            model.hidden_states(model.embed(batch.input_ids), probe=recorder)
            rows = recorder.inputs[last].rows(batch.positions).probabilities()  # (B, H, S, T)
        return batch.split(at_least_single(rows).mean(dim=1).unbind(dim=1))
