"""ReAGent: recursive attribution by replacing tokens with proposals of a masked language model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from pisoft.attribution.base import MethodOptions, ScopedMethod
from pisoft.errors import BenchmarkError
from pisoft.seeds import keyed_generator

if TYPE_CHECKING:
    import torch
    from transformers.cache_utils import Cache

    from pisoft.models.model import Batch, ExplainedSample, LanguageModel

    ReadPrefix = Callable[[tuple[int, ...]], Cache | None]

LARGEST_DELTA = 1 - 1e-6  # beyond it the logit of an update would be infinite


class ReagentOptions(MethodOptions):
    """Options of ReAGent; defaults are the paper's (app:implementation), except `candidates`."""

    keep_top_n: int = Field(
        3, gt=0, description="Highest-scoring tokens kept when the stopping rule is checked."
    )
    stopping_condition_top_k: int = Field(
        3,
        gt=0,
        description="The rule is met when the target is among this many most probable tokens.",
    )
    replacing_ratio: float = Field(
        0.25, gt=0, lt=1, description="Probability that a probe step replaces a token in scope."
    )
    max_probe_steps: int = Field(32, gt=0, description="Most steps of a probe.")
    num_probes: int = Field(2, gt=0, description="Probes per explained step.")
    candidates: int = Field(
        10,
        gt=0,
        description="Replacements proposed per token, drawn by probability; the paper names no "
        "number.",
    )


class Reagent(ScopedMethod):
    """Importance by the drop of the target's probability when random tokens are replaced.

    A probe step replaces random tokens in scope by proposals of a masked language model. With Δ the
    drop of the target's probability, logit((Δ + 1)/2) is added to the importance of replaced tokens
    and subtracted from the others'. A probe converges when the target stays among the best
    predictions with all but the most important tokens in scope replaced, and stops at the step
    limit. Raw scores are the mean softmax importance over converged probes. If there is none, they
    are the mean over all probes, and the step counts as unconverged (the reference code gives NaN).
    Special tokens and tokens outside the scope are never replaced and score 0. Scope `all` is the
    published method. With a foil, the probability is the target's among the two, σ(l_t − l_foil).

    For two label words, both usually stay among the three best predictions, so a probe with the
    paper's settings converges after one step, and scores are coarse.

    Probes of all samples and steps of a batch share forwards; tokens before the scope are read
    once.
    """

    label = "ReAGent"
    family = "perturbation"
    reference = "Zhao and Shan (2024), ReAGent: a model-agnostic feature attribution method"
    seeded = True
    needs_masked_model = True
    iterative = True

    Options = ReagentOptions
    options: ReagentOptions

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if there is no masked model, or it does not fit this model."""
        from pisoft.models.masked import check_replacements

        if self.context.masked is None:
            raise BenchmarkError(
                "method 'reagent': needs a masked language model (key masked_model), none was given"
            )
        try:
            check_replacements(self.context.masked, model.tokenizer, self.options.candidates)
        except BenchmarkError as error:
            raise BenchmarkError(f"method 'reagent': {error}") from error

    def forwards(self, prompt_tokens: float, steps: float, scope: range | None = None) -> float:
        """The clean forward of each step, and two per probe step up to the limit.

        Tokens before the scope are read once. A probe that converges at once takes two forwards.
        The masked model, which is small, additionally reads the prompt once per token.
        """
        forwards = steps * (1 + 2 * self.options.num_probes * self.options.max_probe_steps)
        before = (scope.start if scope else 0) / prompt_tokens
        return before + forwards * (1 - before)

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return importance, one tensor (steps, prompt tokens) per sample."""
        import torch

        @cache
        def read_prefix(ids: tuple[int, ...]) -> Cache | None:
            on_device = torch.tensor([ids], dtype=torch.long, device=model.device)
            return model.read_prefix(model.embed(on_device))

        with torch.inference_mode():
            probes = self._new_probes(model, batch, read_prefix)
            active = [probe for step_probes in probes.values() for probe in step_probes]
            for _ in range(self.options.max_probe_steps):
                self._advance(model, active, read_prefix)
                active = [probe for probe in active if not probe.converged]
        return [
            torch.stack([self._mean(sample, step, probes) for step in sample.steps])
            for sample in batch.samples
        ]

    def _new_probes(
        self, model: LanguageModel, batch: Batch, read_prefix: ReadPrefix
    ) -> dict[tuple[str, int], list[_Probe]]:
        from pisoft.models.masked import replacements

        assert self.context.masked is not None
        probes = {}
        singles = [one for sample in batch.samples for one in sample.apart()]
        clean, _ = self._predict(model, singles, read_prefix)
        clean_values = iter(clean)
        for sample in batch.samples:
            candidates, probabilities = (
                tensor.cpu().numpy()
                for tensor in replacements(
                    self.context.masked,
                    model.tokenizer,
                    sample.prompt_ids,
                    self.options.candidates,
                    self.context.token_budget,
                    sample.in_scope,
                )
            )
            for single in sample.apart():
                key = (sample.sample_id, single.steps[0])
                value = next(clean_values)
                probes[key] = [
                    _Probe(
                        single,
                        candidates,
                        probabilities.cumsum(axis=1),
                        value,
                        keyed_generator(self.context.seed, "reagent", *key, number),
                    )
                    for number in range(self.options.num_probes)
                ]
        return probes

    def _advance(
        self, model: LanguageModel, probes: Sequence[_Probe], read_prefix: ReadPrefix
    ) -> None:
        """Take one probe step: replace random tokens, update importance, check the rule."""
        masks = [probe.random_mask(self.options.replacing_ratio) for probe in probes]
        replaced = [probe.replaced(mask) for probe, mask in zip(probes, masks, strict=True)]
        values, _ = self._predict(model, replaced, read_prefix)
        for probe, mask, value in zip(probes, masks, values, strict=True):
            probe.update(mask, value)
        kept = [probe.replaced(probe.unimportant(self.options.keep_top_n)) for probe in probes]
        _, among_best = self._predict(model, kept, read_prefix)
        for probe, met in zip(probes, among_best, strict=True):
            probe.converged = bool(met)

    def _predict(
        self, model: LanguageModel, singles: Sequence[ExplainedSample], read_prefix: ReadPrefix
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the target's probability, and whether it is among the best predictions, (N,).

        Each sample has one explained step.
        """
        from pisoft.models.batching import token_batches
        from pisoft.models.gradients import attributed_values
        from pisoft.models.model import Batch

        values = np.empty(len(singles))
        among_best = np.empty(len(singles), dtype=bool)
        groups = defaultdict(list)
        for number, single in enumerate(singles):
            length = len(single.read_ids)
            shared = model.shareable(min(single.in_scope, default=0), length)
            prefix_ids = tuple(single.prompt_ids[:shared])
            groups[prefix_ids, model.arithmetic(length)].append((length - shared, number, single))
        for (prefix_ids, _), items in groups.items():
            before = len(prefix_ids)
            for chosen in token_batches(items, itemgetter(0), self.context.token_budget):
                batch = Batch([single for *_, single in chosen], model.device)
                logits = model.next_token_logits(
                    model.embed(batch.input_ids[:, before:]),
                    batch.positions - before,
                    prefix=read_prefix(prefix_ids),
                )
                better = logits > logits.gather(-1, batch.targets.ids[..., :1])
                where = [number for _, number, _ in chosen]
                explained = attributed_values(logits, batch.targets, "probability")[:, 0]
                values[where] = (explained.sigmoid() if singles[0].foil_ids else explained).cpu()
                among_best[where] = (
                    better.sum(dim=-1)[:, 0] < self.options.stopping_condition_top_k
                ).cpu()
        return values, among_best

    def _mean(
        self, sample: ExplainedSample, step: int, probes: dict[tuple[str, int], list[_Probe]]
    ) -> torch.Tensor:
        """Return the mean importance of a step's probes, (prompt tokens,)."""
        import torch

        step_probes = probes[sample.sample_id, step]
        met = [probe for probe in step_probes if probe.converged]
        if not met:
            self.unconverged.add((sample.sample_id, step))
        importances = [probe.importance() for probe in met or step_probes]
        return torch.from_numpy(np.mean(importances, axis=0))


@dataclass
class _Probe:
    """One probe: importance in logits, and separate random numbers."""

    single: ExplainedSample  # of the one explained step
    # Proposed replacements of every prompt token, (T, C), and the sums of their probabilities; a
    # row that holds the token itself marks one that is never replaced.
    candidates: np.ndarray
    cumulative: np.ndarray
    clean: float  # the target's probability on the clean input
    generator: np.random.Generator
    converged: bool = False

    def __post_init__(self) -> None:
        self._ids = np.asarray(self.single.prompt_ids)
        self._replaceable = (self.candidates != self._ids[:, None]).all(axis=1)
        self._logits = self.generator.random(len(self._ids))

    def random_mask(self, ratio: float) -> np.ndarray:
        """Draw the tokens that a probe step replaces, (T,)."""
        return (self.generator.random(len(self._ids)) < ratio) & self._replaceable

    def unimportant(self, keep: int) -> np.ndarray:
        """Return a mask of all tokens but the most important ones, (T,)."""
        mask = self._replaceable.copy()
        mask[np.argsort(-self.importance(), kind="stable")[:keep]] = False
        return mask

    def replaced(self, mask: np.ndarray) -> ExplainedSample:
        """Return the sample with the tokens of a mask (T,) replaced by drawn proposals."""
        draws = self.generator.random(len(self._ids))[:, None] * self.cumulative[:, -1:]
        chosen = np.minimum((draws >= self.cumulative).sum(axis=1), self.candidates.shape[1] - 1)
        proposed = self.candidates[np.arange(len(self._ids)), chosen]
        return replace(self.single, prompt_ids=np.where(mask, proposed, self._ids).tolist())

    def update(self, mask: np.ndarray, value: float) -> None:
        """Update importance after the tokens of a mask (T,) were replaced."""
        delta = np.clip(self.clean - value, -LARGEST_DELTA, LARGEST_DELTA)
        change = np.log1p(delta) - np.log1p(-delta)  # logit((Δ + 1) / 2)
        self._logits += np.where(mask, change, -change)

    def importance(self) -> np.ndarray:
        """Return softmax importance over replaceable tokens, 0 elsewhere, (T,)."""
        if not self._replaceable.any():
            return np.zeros(len(self._ids))
        highest = self._logits[self._replaceable].max()
        weights = np.where(self._replaceable, np.exp(self._logits - highest), 0.0)
        return weights / weights.sum()
