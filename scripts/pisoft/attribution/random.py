"""Random scores: the control that every method must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod
from pisoft.seeds import keyed_generator

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel


class Random(AttributionMethod):
    """Uniform scores in [0, 1), keyed by seed, sample and step (paper §Setup, Random)."""

    label = "Random"
    family = "baseline"
    reference = "control baseline"
    seeded = True

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """No forward: the model is not asked."""
        return 0

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return uniform scores, one tensor (steps, prompt tokens) per sample."""
        import torch

        return [
            torch.stack(
                [
                    torch.from_numpy(
                        keyed_generator(self.context.seed, "random", sample.sample_id, step).random(
                            len(sample.prompt_ids)
                        )
                    )
                    for step in sample.steps
                ]
            )
            for sample in batch.samples
        ]
