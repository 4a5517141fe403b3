"""DeepLIFT, as Captum computes it on decoder-only models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod, BaselineOptions

if TYPE_CHECKING:
    import torch

    from pisoft.lm.model import Batch, LanguageModel


class DeepLift(AttributionMethod):
    """‖(x_i − b_i) ⊙ ∂p_t/∂x_i‖₂ over the embedding channels, b the baseline.

    Captum's rescale rule replaces the derivative of modules such as `torch.nn.ReLU`. It knows
    neither SiLU nor RMSNorm nor the functional softmax of these models, so nothing is rescaled and
    what Inseq and the paper call DeepLIFT *is* gradient × difference from the baseline.
    """

    label = "DeepLIFT"
    family = "gradient"
    reference = "Shrikumar et al. (2017), Learning important features, as in Captum"

    Options = BaselineOptions
    options: BaselineOptions

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return norms of the products, one tensor (steps, prompt tokens) per sample."""
        from pisoft.lm.baselines import baseline_embeddings
        from pisoft.lm.gradients import embedding_gradients

        baseline = baseline_embeddings(model, batch.input_ids, self.options.baseline)
        difference = model.embed(batch.input_ids) - baseline
        steps = embedding_gradients(model, batch, self.options.attributed_function)
        return batch.split([(difference * gradients).norm(dim=-1) for gradients in steps])
