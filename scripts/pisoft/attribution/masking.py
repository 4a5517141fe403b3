"""What mask regression and Shapley values share: units of tokens as players of a game.

A coalition of units is the prompt with the tokens of all other units replaced by the baseline, and
its value is the target's. One forward of a masked prompt serves all steps.
Shapes: m units, N masks, S explained steps.
"""

from __future__ import annotations

from abc import abstractmethod
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
    """Options of methods that mask many units at once."""

    unit: Literal["token", "word", "sentence"] = Field(
        "token",
        description="What is masked as one. Every token of a unit has the unit's score, undivided.",
    )
    forwards: int | None = Field(
        None,
        gt=1,
        description="Masked prompts per sample; null: twice its units and two, which is twice "
        "what occlusion reads.",
    )


class MaskingMethod(ScopedMethod):
    """A method that reads a prompt under many masks of its units.

    The masks of a sample are the same for all its steps. Their random numbers have a key of their
    own, so they never are draws that evaluate. Tokens outside the scope are never masked and
    score 0. Identical masks are read once.
    """

    family = "perturbation"
    seeded = True

    Options = MaskingOptions
    options: MaskingOptions

    def fewest(self, units: int) -> int:
        """Return the fewest masked prompts that give scores of so many units."""
        return units + 1

    @abstractmethod
    def masks(self, generator: np.random.Generator, units: int, forwards: int) -> np.ndarray:
        """Return which units are present, (N, m) of bool; N may exceed `forwards` by repetitions.

        Args:
            generator: random numbers of the sample.
            units: m, at least 1.
            forwards: masks that may be read.
        """

    @abstractmethod
    def unit_scores(self, masks: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return signed scores of the units, (m, S).

        Args:
            masks: of :meth:`masks`, (N, m).
            values: the target's under each mask, (N, S).
        """

    def forwards(self, prompt_tokens: float, steps: float, scope: range | None = None) -> float:
        """One per masked prompt, as if units were tokens; tokens before the scope are read once."""
        first, units = (scope.start, len(scope)) if scope else (0, round(prompt_tokens))
        masks = self.options.forwards or _default_forwards(units)
        return (first + masks * (prompt_tokens - first)) / prompt_tokens

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
        """Return the signed scores of one sample, (S, prompt tokens)."""
        scores = np.zeros((len(sample.steps), len(sample.prompt_ids)))
        positions = sample.in_scope
        if positions:
            units = self._units(model, sample)  # (tokens in scope,)
            count = units[-1] + 1
            forwards = self._forwards(sample, count)
            generator = keyed_generator(self.context.seed, self.name, sample.sample_id)
            masks = self.masks(generator, count, forwards)
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

        texts = token_texts(model.tokenizer, [sample.prompt_ids[place] for place in positions])
        parts = (words if self.options.unit == "word" else sentences)(texts, positions)
        return np.repeat(np.arange(len(parts)), [part.stop - part.start for part in parts])

    def _forwards(self, sample: ExplainedSample, units: int) -> int:
        """Return how many masks may be read."""
        forwards = self.options.forwards or _default_forwards(units)
        if forwards < (fewest := self.fewest(units)):
            raise BenchmarkError(
                f"method '{self.name}': option forwards: {forwards} is less than {fewest}, which "
                f"the {units} units ({self.options.unit}s) of sample {sample.sample_id} need; "
                "null fits it to each sample, and larger units need fewer"
            )
        return forwards

    def _values(
        self, model: LanguageModel, sample: ExplainedSample, present: np.ndarray
    ) -> np.ndarray:
        """Return the target's value under masks of the tokens in scope (N, tokens), (N, S)."""
        import torch

        from pisoft.models.baselines import baseline_embeddings
        from pisoft.models.gradients import attributed_values
        from pisoft.models.model import Batch

        alone = Batch([sample], model.device)
        columns = torch.tensor(sample.in_scope, device=model.device)
        clean = model.embed(alone.input_ids)
        baseline = baseline_embeddings(model, alone.input_ids, self.options.baseline)
        absent = baseline[0, columns].to(clean.dtype)
        first = model.shareable(sample.in_scope[0], clean.shape[1])
        prefix = model.read_prefix(clean[:, :first])
        masks = torch.from_numpy(present).to(model.device)
        values = []
        for chunk in masks.split(self.context.sequences(clean.shape[1] - first)):
            masked = clean.repeat(len(chunk), 1, 1)
            masked[:, columns] = torch.where(chunk[..., None], masked[:, columns], absent)
            positions = alone.positions.expand(len(chunk), -1) - first
            logits = model.next_token_logits(masked[:, first:], positions, prefix=prefix)
            targets = alone.targets.expand(len(chunk), -1)
            values.append(attributed_values(logits, targets, self.options.attributed_function))
        return torch.cat(values).double().cpu().numpy()


def _default_forwards(units: int) -> int:
    return 2 * (units + 1)


def all_masks(units: int) -> np.ndarray:
    """Return all masks of some units, (2^m, m) of bool."""
    return (np.arange(2**units)[:, None] >> np.arange(units) & 1).astype(bool)
