"""Random scores: the control that every method must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod
from pisoft.seeds import keyed_generator

if TYPE_CHECKING:
    import numpy as np
    import torch

    from pisoft.models.model import Batch, ExplainedSample, LanguageModel


class Random(AttributionMethod):
    """Uniform scores in [0, 1), keyed by seed, sample and step (paper §Setup, Random).

    For aggregated heatmaps, scores are keyed by seed and sample only: a mean of n draws would have
    a √n times smaller spread than a single draw.
    """

    label = "Random"
    family = "baseline"
    reference = "control baseline"
    has_target = False
    seeded = True
    needs_model = False

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """None: random scores do not use the model."""
        return 0

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return uniform scores, one tensor (steps, prompt tokens) per sample."""
        import torch

        return [
            torch.stack([torch.from_numpy(self._draw(sample, step)) for step in sample.steps])
            for sample in batch.samples
        ]

    def _draw(self, sample: ExplainedSample, step: int) -> np.ndarray:
        key = (sample.sample_id, *((step,) if self.context.step_scores == "own" else ()))
        generator = keyed_generator(self.context.seed, "random", *key)
        return generator.random(len(sample.prompt_ids))
