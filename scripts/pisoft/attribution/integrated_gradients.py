"""Integrated gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from pisoft.attribution.base import AttributionMethod, BaselineOptions

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel


class IntegratedGradientsOptions(BaselineOptions):
    """Options of integrated gradients; the paper takes 16 steps, 8 at a time."""

    steps: int = Field(16, gt=0, description="Points on the path (Gauss-Legendre quadrature).")
    internal_batch_size: int | None = Field(
        None,
        gt=0,
        description="Most points per forward pass; null: as many as the token budget allows.",
    )
    path_dtype: Literal["model", "float32"] = Field(
        "model",
        description="Type in which the path is computed. `model`: the model's type; `float32`: at "
        "least float32, which needs additional memory for 16-bit weights in float32.",
    )


class IntegratedGradients(AttributionMethod):
    """‖(x_i − b_i) ⊙ ∫₀¹ ∂p_t/∂x_i (b + u(x − b)) du‖₂ over the embedding channels.

    All tokens move along the path together. The forward of a point serves all explained steps.
    """

    label = "Integrated Gradients"
    family = "gradient"
    explains_spans = True
    half_shards = True
    reference = "Sundararajan et al. (2017), Axiomatic attribution for deep networks"

    Options = IntegratedGradientsOptions
    options: IntegratedGradientsOptions

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward per point of the path, and one backward per point and step."""
        return self.options.steps * (1 + steps)

    def float32_forwards(self, prompt_tokens: float, steps: float) -> float:
        """All or none, by option `path_dtype`."""
        in_float32 = self.options.path_dtype == "float32"
        return self.forwards(prompt_tokens, steps) if in_float32 else 0

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return norms, one tensor (steps, prompt tokens) per sample."""
        import torch

        from pisoft.models.ablation import baseline_embeddings
        from pisoft.models.gradients import path_integrals
        from pisoft.models.precision import computing_in_float32

        options = self.options
        nodes, weights = np.polynomial.legendre.leggauss(options.steps)  # on [-1, 1]
        shape = (len(batch.samples), options.steps)
        rows = self.context.sequences(batch.input_ids.shape[1])
        with computing_in_float32(*[model.network] * (options.path_dtype == "float32")):
            integrals = path_integrals(
                model,
                batch,
                options.attributed_function,
                baseline_embeddings(model, batch.input_ids, options.baseline),
                torch.from_numpy((nodes + 1) / 2).to(batch.device).expand(shape),
                torch.from_numpy(weights / 2).to(batch.device).expand(shape),
                rows=min(options.internal_batch_size or rows, rows),
            )
        return batch.split([integral.norm(dim=-1) for integral in integrals])
