"""Occlusion: leave one token out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from pisoft.attribution.base import BaselineOptions, ScopedMethod

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


class Occlusion(ScopedMethod):
    """|p_t(X) − p_t(X with x_i replaced by the baseline)|, for every token x_i in scope.

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

    def forwards(self, prompt_tokens: float, steps: float, scope: range | None = None) -> float:
        """The clean input and one per token in scope, for all steps, less what batches share.

        A batch of occluded sequences reads the tokens before the first occluded one once.
        """
        rows = _rows(range(math.ceil(prompt_tokens)) if scope is None else scope)
        read = 0.0
        while rows:
            left = prompt_tokens - rows[0]
            batch = rows[: self.context.sequences(math.ceil(left))]
            read += rows[0] + len(batch) * left
            del rows[: len(batch)]
        return read / prompt_tokens

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return changes of the target, one tensor (steps, prompt tokens) per sample."""
        import torch

        with torch.inference_mode():
            drops = [self._drops(model, sample) for sample in batch.samples]
        return drops if self.options.signed else [of_sample.abs() for of_sample in drops]

    def _drops(self, model: LanguageModel, sample: ExplainedSample) -> torch.Tensor:
        """Return the drops of one sample, (S, prompt tokens), 0 outside the scope."""
        import torch

        from pisoft.models.baselines import baseline_embeddings
        from pisoft.models.gradients import attributed_values
        from pisoft.models.model import Batch

        alone = Batch([sample], model.device)
        embeddings = model.embed(alone.input_ids)
        baseline = baseline_embeddings(model, alone.input_ids, self.options.baseline)
        width = embeddings.shape[1]
        rows = _rows(sample.in_scope)
        values: list[torch.Tensor] = []
        while rows:
            shared = model.shareable(rows[0], width)
            batch = rows[: self.context.sequences(width - shared)]
            del rows[: len(batch)]
            occluded = embeddings[:, shared:].repeat(len(batch), 1, 1)
            clean = 0 if values else 1  # rows at the head of this batch
            number = torch.arange(clean, len(batch), device=model.device)
            column = torch.tensor(batch[clean:], dtype=torch.long, device=model.device)
            occluded[number, column - shared] = baseline[0, column].to(occluded.dtype)
            logits = model.next_token_logits(
                occluded,
                alone.positions.expand(len(batch), -1) - shared,
                prefix=model.read_prefix(embeddings[:, :shared]),
            )
            targets = alone.targets.expand(len(batch), -1)
            values.append(attributed_values(logits, targets, self.options.attributed_function))
        drops = torch.zeros(len(sample.steps), len(sample.prompt_ids), device=model.device)
        if not values:
            return drops
        of_clean, of_occluded = torch.cat(values).split([1, len(sample.in_scope)])  # (rows, S)
        drops = drops.to(of_clean.dtype)
        drops[:, sample.in_scope] = (of_clean - of_occluded).T
        return drops


def _rows(scope: Sequence[int]) -> list[int]:
    """Return where each row begins to differ: the clean input, then an occlusion of each token."""
    return [*scope[:1], *scope]
