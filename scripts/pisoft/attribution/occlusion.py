"""Occlusion: leave one token out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field

from pisoft.attribution.base import AttributionMethod, BaselineOptions

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, ExplainedSample, LanguageModel


class OcclusionOptions(BaselineOptions):
    """Options of occlusion."""

    signed: bool = Field(
        False,
        description="Keep the sign: positive where the token supports the target. false: the size "
        "of the change, as in Inseq.",
    )


class Occlusion(AttributionMethod):
    """|p_t(X) − p_t(X with x_i replaced by the baseline)|, token by token.

    With signs, min-max normalisation would put all tokens that do not matter in the middle of the
    scale as soon as one speaks against the target, so the default is without. One forward of an
    occluded sequence serves all steps, and the tokens before the occluded ones are read once for a
    whole batch of them.
    """

    label = "Occlusion"
    family = "perturbation"
    reference = "Zeiler and Fergus (2014); Li et al. (2016), Understanding neural networks"

    Options = OcclusionOptions
    options: OcclusionOptions

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """The clean forward, and one per prompt token that serves all steps, less what is shared.

        A batch of occluded sequences reads the tokens before the first occluded one once.
        """
        first, read = 0, prompt_tokens
        while first < prompt_tokens:
            left = math.ceil(prompt_tokens) - first
            rows = min(self.context.sequences(left), left)
            read += first + rows * (prompt_tokens - first)
            first += rows
        return read / prompt_tokens

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return changes of the target, one tensor (steps, prompt tokens) per sample."""
        import torch

        with torch.inference_mode():
            drops = [self._drops(model, sample) for sample in batch.samples]
        return drops if self.options.signed else [of_sample.abs() for of_sample in drops]

    def _drops(self, model: LanguageModel, sample: ExplainedSample) -> torch.Tensor:
        """Return the drops of one sample, (S, prompt tokens)."""
        import torch

        from pisoft.models.baselines import baseline_embeddings
        from pisoft.models.model import Batch

        alone = Batch([sample], model.device)
        embeddings = model.embed(alone.input_ids)
        baseline = baseline_embeddings(model, alone.input_ids, self.options.baseline)
        clean = self._values(model, embeddings, alone, first=0)  # (1, S)
        drops = []
        first, width = 0, embeddings.shape[1]
        while first < len(sample.prompt_ids):
            rows = min(self.context.sequences(width - first), len(sample.prompt_ids) - first)
            columns = torch.arange(first, first + rows, device=model.device)
            occluded = embeddings.repeat(rows, 1, 1)
            occluded[columns - first, columns] = baseline[0, columns].to(occluded.dtype)
            drops.append(clean - self._values(model, occluded, alone, first))
            first += rows
        return torch.cat(drops).T

    def _values(
        self, model: LanguageModel, embeddings: torch.Tensor, alone: Batch, first: int
    ) -> torch.Tensor:
        """Return the target's value at every step, (rows, S); rows agree before `first`."""
        from pisoft.models.gradients import attributed_values

        rows = len(embeddings)
        shared = model.shareable(first, embeddings.shape[1])
        prefix = model.read_prefix(embeddings[:1, :shared])
        positions = alone.positions.expand(rows, -1) - shared
        logits = model.next_token_logits(embeddings[:, shared:], positions, prefix=prefix)
        targets = alone.targets.expand(rows, -1)
        return attributed_values(logits, targets, self.options.attributed_function)
