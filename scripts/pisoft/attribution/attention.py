"""Raw attention of the last decoder layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from pisoft.attribution.base import AttributionMethod, MethodOptions

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel


class AttentionOptions(MethodOptions):
    """Which layers are read."""

    layers: int | None = Field(
        1,
        gt=0,
        description="Number of decoder layers to average, counted from the last. 1: the last, as "
        "in the paper; null: all, as Inseq does by default.",
    )


class Attention(AttributionMethod):
    """Attention probabilities of the predicting position, mean over heads and chosen layers."""

    label = "Attention"
    family = "attention"
    reference = "Bahdanau et al. (2015), Neural machine translation by jointly learning to align"
    has_target = False
    needs_attention = True
    Options = AttentionOptions
    options: AttentionOptions

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if option `layers` exceeds the model's."""
        super().check(model)
        self.last_layers(model, self.options.layers)

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward serves all steps."""
        return 1

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return attention rows, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.models.attention import AttentionRecorder
        from pisoft.models.precision import at_least_float32

        chosen = self.last_layers(model, self.options.layers)
        recorder = AttentionRecorder(layers=chosen)
        with torch.inference_mode():
            model.hidden_states(model.embed(batch.input_ids), probe=recorder)
            maps = [
                at_least_float32(recorder.inputs[layer].rows(batch.positions).probabilities())
                for layer in chosen
            ]  # each (B, H, S, T)
            mean = torch.stack([layer_map.mean(dim=1) for layer_map in maps]).mean(dim=0)
        return batch.split(mean.unbind(dim=1))
