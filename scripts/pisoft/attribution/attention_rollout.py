"""Attention rollout: attention multiplied through the layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel


class AttentionRollout(AttributionMethod):
    """Row of the predicting position of Π_layers (A + I)/2, A the mean over heads.

    The product is taken from the last layer to the first, one row per step, so that each layer's
    map is needed only once and never kept.
    """

    label = "Attention Rollout"
    family = "attention"
    reference = "Abnar and Zuidema (2020), Quantifying attention flow in transformers"
    has_target = False
    needs_attention = True

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward serves all steps."""
        return 1

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return rollout rows, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.models.attention import AttentionRecorder
        from pisoft.models.precision import at_least_float32

        recorder = AttentionRecorder(layers=range(model.layers))
        with torch.inference_mode():
            embeddings = model.embed(batch.input_ids)
            model.hidden_states(embeddings, probe=recorder)
            width = batch.input_ids.shape[1]
            rows = torch.nn.functional.one_hot(batch.positions, width)
            rows = rows.to(at_least_float32(embeddings).dtype)  # (B, S, T)
            for layer in reversed(range(model.layers)):
                maps = at_least_float32(recorder.inputs.pop(layer).probabilities())
                rows = (rows @ maps.mean(dim=1) + rows) / 2
        return batch.split(rows.unbind(dim=1))
