"""Saliency: the norm of the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod, GradientOptions

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel


class Saliency(AttributionMethod):
    """‖∂p_t/∂x_i‖₂ over the embedding channels (vanilla gradient)."""

    label = "Saliency"
    family = "gradient"
    explains_spans = True
    reference = "Simonyan et al. (2014), Deep inside convolutional networks"

    Options = GradientOptions
    options: GradientOptions

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return gradient norms, one tensor (steps, prompt tokens) per sample."""
        from pisoft.models.gradients import embedding_gradients

        steps = embedding_gradients(model, batch, self.options.attributed_function)
        return batch.split([gradients.norm(dim=-1) for gradients in steps])
