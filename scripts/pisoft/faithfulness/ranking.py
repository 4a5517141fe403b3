"""Insertion, deletion and counterfactuals: does the answer flip (paper, app:insertion/deletion)?

The answer is the preferred label word, or the first token that the model would generate. For a
generated answer, deletion measures its log-probability instead
(:mod:`pisoft.faithfulness.answer_deletion`).

Perturbable tokens are ranked by raw score. Step k = 1, …, S deletes the round(k·m/S) highest ones
(halves round to even), or inserts them into a prompt without perturbable tokens. The two curves
keep complementary tokens at each step: deletion ends without perturbable tokens, insertion with the
clean prompt. An empty input, possible with scope `all`, has no answer and counts as a flip.

A counterfactual replaces the tokens that deletion removes
(:mod:`pisoft.faithfulness.counterfactuals`).

Shapes: m perturbable tokens, S steps, A tokens that an answer is read from, V vocabulary size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache

from pisoft.config.base import FlipOf, Scope
from pisoft.config.evaluation import RankingSettings
from pisoft.faithfulness.answer_deletion import MAS, PLAIN, RISE, GeneratedAnswer, areas, mass_left
from pisoft.faithfulness.counterfactuals import Replace
from pisoft.faithfulness.perturbed_inputs import (
    Key,
    Perturbation,
    PerturbedInput,
    RankedSample,
    key_of,
    next_token_logits,
    perturbed_input,
)
from pisoft.models.batching import fitted_batches, warn_too_long
from pisoft.models.model import LanguageModel
from pisoft.seeds import keyed_generator
from pisoft.store.parquet import (
    ANSWER_NOT_LESS_LIKELY,
    NO_CONTENT_TOKENS,
    NONFINITE_ATTRIBUTION,
    NONFINITE_LOGITS,
    NOT_APPLICABLE,
    OK,
    TOO_LONG_FOR_MEMORY,
)
from pisoft.store.scope import perturbable_positions

Row = dict[str, Any]
Outcome = bool | float | str
"""Whether an input flips the answer; of a generated one, its log-probability; or a status."""
CURVES = ("deletion", "insertion")
ANSWER_CURVES = (PLAIN, RISE, MAS)
COUNTERFACTUAL = "counterfactual"
_ANSWERS: dict[FlipOf, str] = {"label_word": "predicted_label", "first_token": "greedy_token_id"}
STEP = 0  # of the lots, which all explained tokens share


@dataclass
class RankingEvaluator:
    """Runs insertion, deletion and counterfactuals over blocks of samples."""

    model: LanguageModel
    settings: RankingSettings
    scope: Scope
    seed: int  # of the order of tokens with equal scores
    token_budget: int  # in force; it is lowered for good if memory does not suffice
    replace: Replace | None = None  # gives the replacements of counterfactuals, if there are any
    forwards: int = 0  # perturbed inputs run so far; one that several steps share is run once
    tokens: int = 0  # of these, without padding and without the prefixes, which inputs share

    def __post_init__(self) -> None:
        self._perturbations: dict[str, Perturbation] = dict.fromkeys(CURVES, self.settings.operator)
        if self.replace is not None:
            self._perturbations[COUNTERFACTUAL] = "replace"

    def evaluate_block(self, block: Sequence[tuple[Row, Row, Sequence[Row]]]) -> list[Row]:
        """Return `ranking` rows of a block of samples, in their order and that of the curves.

        Samples are rows of `prompts`, `generations` and, one per step, `attributions`.
        """
        ranked = [self._ranked(*rows) for rows in block]
        outcomes = self._outcomes(one for one in ranked if isinstance(one, RankedSample))
        rows = []
        for (prompt, _, _), sample in zip(block, ranked, strict=True):
            if isinstance(sample, RankedSample):
                rows += _rows(sample, outcomes, self.scope)
            else:
                curves = self._perturbations if prompt["label_words"] else ANSWER_CURVES
                rows += failed_rows(prompt, self.scope, sample, curves)
        return rows

    def _ranked(
        self, prompt: Row, generation: Row, attributions: Sequence[Row]
    ) -> RankedSample | str:
        """Return a sample with the tokens that each step keeps, or the status of a failed one."""
        perturbable = perturbable_positions(prompt, self.scope)
        for attribution in attributions:
            if attribution["status"] != OK:
                return attribution["status"]
        if not len(perturbable):
            return NO_CONTENT_TOKENS
        scores = [attribution["raw_scores"] for attribution in attributions]
        raw = np.sum(np.asarray(scores, dtype=np.float64), axis=0)[perturbable]
        if not np.isfinite(raw).all():
            return NONFINITE_ATTRIBUTION
        ranks = token_ranks(raw, self.seed, prompt["sample_id"])
        kept = kept_tokens(ranks, self.settings.steps)
        if not prompt["label_words"]:
            perturbations = {PLAIN: self.settings.operator}
            clean = np.ones((1, 1, len(raw)), dtype=bool)
            kept = np.concatenate([clean, kept[:1]], axis=1)
            answer = GeneratedAnswer.from_row(generation)
            return RankedSample(prompt, answer, perturbable, raw, perturbations, kept)
        answer = generation[_ANSWERS[self.settings.flip_of]]
        sample = RankedSample(prompt, answer, perturbable, raw, self._perturbations, kept)
        if self.replace is None:
            return sample
        kept = np.concatenate([kept, kept[:1]])  # a counterfactual keeps what deletion keeps
        return replace(sample, kept=kept, replacements=self.replace(prompt, perturbable))

    def _outcomes(self, samples: Iterable[RankedSample]) -> dict[Key, Outcome]:
        """Return the outcome of each input, or its failure status."""
        outcomes: dict[Key, Outcome] = {}
        waiting: dict[tuple[int, ...], list[PerturbedInput]] = defaultdict(list)
        for perturbed in self._inputs(samples):
            generated = isinstance(perturbed.sample.answer, GeneratedAnswer)
            if perturbed.is_empty:
                outcomes[perturbed.key] = NOT_APPLICABLE if generated else True
            elif perturbed.kept.all() and not generated:
                outcomes[perturbed.key] = False  # the clean prompt, whatever rounding would say
            else:
                waiting[perturbed.prefix].append(perturbed)
        for prefix, inputs in waiting.items():
            outcomes |= self._run(prefix, inputs)
        return outcomes

    def _inputs(self, samples: Iterable[RankedSample]) -> list[PerturbedInput]:
        """Return the distinct inputs of all steps."""
        distinct = {
            key_of(sample, perturbation, kept): (sample, kept, perturbation)
            for sample in samples
            for perturbation, masks in zip(sample.perturbations.values(), sample.kept, strict=True)
            for kept in masks
        }
        return [perturbed_input(self.model, *item) for item in distinct.values()]

    def _run(
        self, prefix_ids: tuple[int, ...], inputs: Sequence[PerturbedInput]
    ) -> dict[Key, Outcome]:
        """Run the inputs that share a prefix; a lowered token budget is kept."""
        read_prefix = cache(partial(_read_prefix, self.model, prefix_ids))
        given_up: set[str] = set()  # sample ids

        def work(batch: Sequence[PerturbedInput], token_budget: int) -> dict[Key, Outcome]:
            self.token_budget = token_budget
            fitting = [perturbed for perturbed in batch if perturbed.key[0] not in given_up]
            outcomes: dict[Key, Outcome] = {item.key: TOO_LONG_FOR_MEMORY for item in batch}
            if fitting:
                logits = next_token_logits(self.model, fitting, read_prefix())
                numbers = [
                    _answer_numbers(perturbed.sample, input_logits)
                    for perturbed, input_logits in zip(fitting, logits, strict=True)
                ]
                read = torch.cat(numbers).cpu().split([len(one) for one in numbers])  # waits once
                for perturbed, one in zip(fitting, read, strict=True):
                    outcomes[perturbed.key] = _outcome(perturbed.sample, one)
            return outcomes

        def give_up(perturbed: PerturbedInput) -> dict[Key, Outcome]:
            sample_id, *_ = perturbed.key
            given_up.add(sample_id)
            name = f"ranking, model '{self.model.name}': sample {sample_id}"
            warn_too_long(name, len(prefix_ids) + _length(perturbed))
            return {perturbed.key: TOO_LONG_FOR_MEMORY}

        self.forwards += len(inputs)
        self.tokens += sum(map(_length, inputs))
        outcomes: dict[Key, Outcome] = {}
        for batch_outcomes in fitted_batches(
            inputs,
            _length,
            self.token_budget,
            work,
            give_up,
            lambda length: self.model.arithmetic(len(prefix_ids) + length),
        ):
            outcomes |= batch_outcomes
        return outcomes


def token_ranks(raw: np.ndarray, seed: int, sample_id: str) -> np.ndarray:
    """Return each perturbable token's rank by finite raw scores (m,), 0 for the highest.

    Ties are broken at random, identically for every method.
    """
    lots = keyed_generator(seed, "ranking", sample_id, STEP).random(len(raw))
    return np.argsort(np.lexsort((lots, -raw)))


def kept_tokens(ranks: np.ndarray, steps: int) -> np.ndarray:
    """Return the tokens that each step keeps, (2, S, m), curves in the order of CURVES."""
    highest = ranks < step_counts(len(ranks), steps)[:, None]  # (S, m)
    return np.stack([~highest, highest])


def step_counts(tokens: int, steps: int) -> np.ndarray:
    """Return the number of highest-ranked tokens that each step deletes or inserts, (S,)."""
    return np.rint(np.arange(1, steps + 1) * tokens / steps)


def failed_rows(
    prompt: Row, scope: Scope, status: str, curves: Iterable[str] = CURVES
) -> list[Row]:
    """Return the rows of a failed sample, one per curve, with a status and no numbers."""
    count = len(perturbable_positions(prompt, scope))
    return [_row(prompt, curve, count, status) for curve in curves]


def not_applicable_rows(prompts: Iterable[Row], scope: Scope) -> list[Row]:
    """Return the rows of samples that have no answer to flip."""
    return [row for prompt in prompts for row in failed_rows(prompt, scope, NOT_APPLICABLE)]


def _rows(sample: RankedSample, outcomes: Mapping[Key, Outcome], scope: Scope) -> list[Row]:
    """Return the rows of a sample; its curves fail together, so that all cover the same samples."""
    by_curve = [
        [outcomes[key_of(sample, perturbation, kept)] for kept in masks]
        for perturbation, masks in zip(sample.perturbations.values(), sample.kept, strict=True)
    ]
    failures = [one for curve in by_curve for one in curve if isinstance(one, str)]
    if isinstance(sample.answer, GeneratedAnswer):
        if failures:
            return failed_rows(sample.prompt, scope, failures[0], ANSWER_CURVES)
        return _answer_rows(sample, np.array(by_curve[0]), len(sample.answer.targets))
    if failures:
        return failed_rows(sample.prompt, scope, failures[0], sample.perturbations)
    count = len(sample.perturbable)
    return [
        _row(sample.prompt, curve, count, OK, flips=flips, auc=_value(curve, count, flips))
        for curve, flips in zip(sample.perturbations, by_curve, strict=True)
    ]


def _answer_rows(sample: RankedSample, log_probabilities: np.ndarray, tokens: int) -> list[Row]:
    """Return the rows of a generated answer; RISE and MAS may be undefined."""
    values = areas(log_probabilities, mass_left(sample.raw, sample.kept[0]), tokens)
    rows = [
        _row(
            *(sample.prompt, curve, len(sample.perturbable)),
            ANSWER_NOT_LESS_LIKELY if area is None else OK,
            auc=area,
        )
        for curve, area in values.items()
    ]
    rows[0]["log_probabilities"] = log_probabilities.tolist()
    return rows


def _row(prompt: Row, curve: str, count: int, status: str, **numbers: Any) -> Row:
    unknown = dict.fromkeys(("flips", "log_probabilities", "auc"))
    row = {"sample_id": prompt["sample_id"], "curve": curve, "perturbable": count}
    return row | unknown | numbers | {"status": status}


def _value(curve: str, count: int, flips: Sequence[Outcome]) -> float:
    """Return the share of steps that flip, or of tokens replaced at the first flip (1: no flip)."""
    if curve != COUNTERFACTUAL:
        return sum(map(bool, flips)) / len(flips)
    replaced = step_counts(count, len(flips))
    return next((n / count for n, flip in zip(replaced, flips, strict=True) if flip), 1.0)


def _answer_numbers(sample: RankedSample, logits: torch.Tensor) -> torch.Tensor:
    """Return the numbers that determine the answer, from logits (A, V); on their device, float64.

    They are the label words' logits; the argmax and whether all logits are finite; or the
    log-probability of a generated answer.
    """
    if isinstance(sample.answer, GeneratedAnswer):
        targets = torch.tensor(sample.answer.targets, device=logits.device)
        log_probabilities = logits[: len(targets)].double().log_softmax(dim=-1)
        return log_probabilities.gather(1, targets[:, None]).sum()[None]
    first = logits[0]
    if isinstance(sample.answer, int):
        return torch.stack([first.argmax(), first.isfinite().all()]).double()
    return first[sample.prompt["label_token_ids"]].double()


def _outcome(sample: RankedSample, numbers: torch.Tensor) -> Outcome:
    """Return whether the answer flips, or its log-probability."""
    if isinstance(sample.answer, int):
        largest, finite = numbers.tolist()
        return largest != sample.answer if finite else NONFINITE_LOGITS
    if not numbers.isfinite().all():
        return NONFINITE_LOGITS
    if isinstance(sample.answer, GeneratedAnswer):
        return float(numbers)
    return sample.prompt["label_words"][int(numbers.argmax())] != sample.answer


def _length(perturbed: PerturbedInput) -> int:
    return len(perturbed.token_ids)


@torch.inference_mode()
def _read_prefix(model: LanguageModel, token_ids: Sequence[int]) -> Cache | None:
    ids = torch.tensor([token_ids], dtype=torch.long, device=model.device)
    return model.read_prefix(model.embed(ids))
