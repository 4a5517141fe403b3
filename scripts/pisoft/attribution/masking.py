"""Base classes of methods that read a prompt under many masks.

A mask selects units of tokens; the tokens of all other units are replaced by the baseline. The
value of a mask is that of the target. One forward of a masked prompt serves all steps.
Shapes: m units, N masks, S explained steps.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from pisoft.attribution.base import PerturbationOptions, ScopedMethod
from pisoft.errors import BenchmarkError
from pisoft.seeds import keyed_generator
from pisoft.segments import sentences, words

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, ExplainedSample, LanguageModel


class MaskingOptions(PerturbationOptions):
    """Options of methods that mask units."""

    unit: Literal["token", "word", "sentence"] = Field(
        "token",
        description="What is masked together. Every token gets the unit's score, undivided.",
    )


class SamplingOptions(MaskingOptions):
    """Options of methods that choose among all masks of a prompt."""

    forwards: int | None = Field(
        None,
        gt=1,
        description="Masked prompts per sample; null: two more than twice its units, which is "
        "twice what occlusion reads.",
    )


class MaskingMethod(ScopedMethod):
    """A method that reads a prompt under many masks of its units.

    All steps of a sample share its masks, and equal masks are evaluated once. The common prefix of
    the masked prompts in a batch is read once. Tokens outside the scope are never masked and score
    0.
    """

    family = "perturbation"
    explains_spans = True

    Options = MaskingOptions
    options: MaskingOptions

    def check(self, model: LanguageModel) -> None:
        """Warn of a reference token that ends texts; raise a BenchmarkError if there is none."""
        from pisoft.models.ablation import warn_of_end

        super().check(model)
        if self.options.baseline == "reference":
            warn_of_end(model)

    @abstractmethod
    def masks(self, sample: ExplainedSample, units: int) -> np.ndarray:
        """Return whether each unit is present, (N, m) bool, m ≥ 1.

        Raises:
            BenchmarkError: options do not suit a sample with so many units.
        """

    @abstractmethod
    def unit_scores(self, masks: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return signed scores of the units, (m, S).

        Args:
            masks: from :meth:`masks`, (N, m).
            values: value of the target under each mask, (N, S).
        """

    def single_forwards(self, prompt_tokens: float, scope: range) -> float:
        """Return the cost of masking each token in scope separately, and of the unmasked prompt.

        As in :meth:`attribute`, a batch shares the tokens before its first masked one.
        """
        first, read = scope.start, 0.0
        while first <= scope.stop:
            left = prompt_tokens - first
            rows = min(self.context.sequences(max(1, math.ceil(left))), scope.stop + 1 - first)
            read += first + rows * left
            first += rows
        return read / prompt_tokens

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return the scores of units at their tokens, one tensor (steps, prompt tokens) per sample.

        Raises:
            BenchmarkError: option `forwards` is too low for a sample's units.
        """
        import torch

        with torch.inference_mode():
            scores = [self._scores(model, sample) for sample in batch.samples]
        return [torch.from_numpy(one if self.options.signed else np.abs(one)) for one in scores]

    def _scores(self, model: LanguageModel, sample: ExplainedSample) -> np.ndarray:
        scores = np.zeros((len(sample.steps), len(sample.prompt_ids)))
        positions = sample.in_scope
        if positions:
            units = self._units(model, sample)  # (tokens in scope,)
            masks = self.masks(sample, int(units[-1]) + 1)  # NumPy's 2^64 would be 0
            distinct, index = np.unique(masks, axis=0, return_inverse=True)
            values = self._values(model, sample, distinct[:, units])[index]
            scores[:, positions] = self.unit_scores(masks, values)[units].T
        return scores

    def _units(self, model: LanguageModel, sample: ExplainedSample) -> np.ndarray:
        """Return the unit of each token in scope, 0 to m − 1."""
        positions = sample.in_scope
        if self.options.unit == "token":
            return np.arange(len(positions))
        from pisoft.prompts.token_texts import token_texts

        texts = token_texts(model.tokenizer, [sample.prompt_ids[i] for i in positions])
        parts = (words if self.options.unit == "word" else sentences)(texts, positions)
        return np.repeat(np.arange(len(parts)), [part.stop - part.start for part in parts])

    def _values(
        self, model: LanguageModel, sample: ExplainedSample, present: np.ndarray
    ) -> np.ndarray:
        """Return the target's value (N, S) under masks of the tokens in scope (N, tokens)."""
        import torch

        from pisoft.models.ablation import baseline_embeddings
        from pisoft.models.gradients import attributed_values
        from pisoft.models.model import Batch

        alone = Batch([sample], model.device)
        columns = torch.tensor(sample.in_scope, device=model.device)
        clean = model.embed(alone.input_ids)
        baseline = baseline_embeddings(model, alone.input_ids, self.options.baseline)
        absent = baseline[0, columns].to(clean.dtype)
        width, values = clean.shape[1], []
        for rows, first in self._batches(present, np.array(sample.in_scope), width):
            mask = torch.from_numpy(present[rows]).to(model.device)
            masked = clean.repeat(len(mask), 1, 1)
            masked[:, columns] = torch.where(mask[..., None], masked[:, columns], absent)
            shared = model.shareable(first, width)
            logits = model.next_token_logits(
                masked[:, shared:],
                alone.positions.expand(len(mask), -1) - shared,
                prefix=model.read_prefix(masked[:1, :shared]),
            )
            targets = alone.targets.rows(torch.zeros(len(mask), dtype=torch.long))
            values.append(attributed_values(logits, targets, self.options.attributed_function))
        return torch.cat(values).double().cpu().numpy()

    def _batches(
        self, present: np.ndarray, positions: np.ndarray, width: int
    ) -> Iterator[tuple[slice, int]]:
        """Yield batches of sorted masks (N, tokens), and the first token at which a batch differs.

        Without its common prefix, a batch keeps to the token budget.
        """
        start = 0
        while start < len(present):
            differs = present[start:] != present[start]
            differs[:, -1] = True
            first = np.minimum.accumulate(positions[differs.argmax(axis=1)])
            tokens = np.arange(1, len(first) + 1) * (width - first)
            count = max(1, int(np.searchsorted(tokens, self.context.token_budget, side="right")))
            yield slice(start, start + count), int(first[count - 1]) if count > 1 else 0
            start += count


class SamplingMethod(MaskingMethod):
    """A method that samples masks of a prompt.

    Random numbers have a separate key, so the masks differ from those of the evaluation.
    """

    seeded = True

    Options = SamplingOptions
    options: SamplingOptions

    def fewest(self, units: int) -> int:
        """Return the fewest masked prompts that determine the scores of `units` units."""
        return units + 1

    @abstractmethod
    def sampled(self, generator: np.random.Generator, units: int, forwards: int) -> np.ndarray:
        """Return whether each unit is present, (N, m) bool; repetitions may exceed `forwards`."""

    def masks(self, sample: ExplainedSample, units: int) -> np.ndarray:
        """Return the masks of a sample, (N, m).

        Raises:
            BenchmarkError: option `forwards` is too low for its units.
        """
        forwards = self.number_of_forwards(units)
        if forwards < (fewest := self.fewest(units)):
            raise BenchmarkError(
                f"method '{self.name}': option forwards: {forwards} is less than {fewest}, which "
                f"the {units} units ({self.options.unit}s) of sample {sample.sample_id} need; "
                "null fits it to each sample, and larger units need fewer"
            )
        generator = keyed_generator(self.context.seed, self.name, sample.sample_id)
        return self.sampled(generator, units, forwards)

    def number_of_forwards(self, units: int) -> int:
        """Return the number of masks to evaluate for `units` units."""
        return self.options.forwards or 2 * (units + 1)

    def forwards(self, prompt_tokens: float, steps: float, scope: range | None = None) -> float:
        """One per masked prompt, with tokens as units; tokens before the scope are read once."""
        scope = range(math.ceil(prompt_tokens)) if scope is None else scope
        masks = self.number_of_forwards(len(scope))
        return (scope.start + masks * (prompt_tokens - scope.start)) / prompt_tokens


def all_masks(units: int) -> np.ndarray:
    """Return all masks of m units, (2^m, m) bool."""
    return (np.arange(2**units)[:, None] >> np.arange(units) & 1).astype(bool)
