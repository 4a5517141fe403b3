"""Input × gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod, GradientOptions

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel


class InputXGradient(AttributionMethod):
    """‖x_i ⊙ ∂p_t/∂x_i‖₂ over the embedding channels."""

    label = "Input×Gradient"
    family = "gradient"
    explains_spans = True
    reference = "Simonyan et al. (2014); Denil et al. (2014), Extraction of salient sentences"

    Options = GradientOptions
    options: GradientOptions

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return norms of the products, one tensor (steps, prompt tokens) per sample."""
        from pisoft.models.gradients import embedding_gradients

        x = model.embed(batch.input_ids)
        steps = embedding_gradients(model, batch, self.options.attributed_function)
        return batch.split([(x * gradients).norm(dim=-1) for gradients in steps])
