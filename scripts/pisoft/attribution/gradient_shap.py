"""Gradient SHAP: expected gradients over random points of the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from pisoft.attribution.base import AttributionMethod, BaselineOptions
from pisoft.seeds import keyed_generator

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel


class GradientShapOptions(BaselineOptions):
    """Options of gradient SHAP."""

    draws: int = Field(5, gt=0, description="Random points on the path, as in Captum.")


class GradientShap(AttributionMethod):
    """‖(x_i − b_i) ⊙ mean_u ∂p_t/∂x_i (b + u(x − b))‖₂, u uniform in [0, 1).

    Points are keyed by seed and sample, and shared by all steps of a sample. Like Captum by
    default, this method adds no noise to the input.
    """

    label = "Gradient SHAP"
    family = "gradient"
    explains_spans = True
    reference = "Lundberg and Lee (2017), A unified approach; Erion et al. (2021)"
    seeded = True

    Options = GradientShapOptions
    options: GradientShapOptions

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward per point of the path, and one backward per point and step."""
        return self.options.draws * (1 + steps)

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return norms, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.models.ablation import baseline_embeddings
        from pisoft.models.gradients import path_integrals

        draws = self.options.draws
        points = [
            keyed_generator(self.context.seed, "gradient_shap", sample.sample_id).random(draws)
            for sample in batch.samples
        ]
        fractions = torch.from_numpy(np.stack(points)).to(batch.device)
        baseline = baseline_embeddings(model, batch.input_ids, self.options.baseline)
        integrals = path_integrals(
            model,
            batch,
            self.options.attributed_function,
            baseline,
            fractions,
            torch.full_like(fractions, 1 / draws),
            rows=self.context.sequences(batch.input_ids.shape[1]),
        )
        return batch.split([integral.norm(dim=-1) for integral in integrals])
