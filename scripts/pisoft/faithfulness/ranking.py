"""Insertion, deletion and counterfactuals: does the answer flip (paper, app:insertion/deletion)?

The answer is the label word that the model prefers, or the first token that it would generate.

Perturbable tokens are ranked by raw score. At step k = 1, …, S, the round(k·m/S) highest ones
(halves round to the even number) are deleted; or they are inserted into a prompt that holds no
perturbable token. So what the two curves keep at a step is each other's complement; deletion ends
without any perturbable token, and insertion with the clean prompt. Where nothing at all is left to
read, as with scope `all`, there is no answer, which counts as a flip.

A counterfactual has the tokens replaced that deletion removes (see
:mod:`pisoft.faithfulness.counterfactuals`).

Shapes: m perturbable tokens, S steps, B inputs, T tokens of an input, V vocabulary size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import Cache

from pisoft.config.base import FlipOf, Operator, Scope
from pisoft.config.evaluation import RankingSettings
from pisoft.faithfulness.counterfactuals import Replace
from pisoft.models.batching import fitted_batches, warn_too_long
from pisoft.models.generation import preferred_label
from pisoft.models.model import LanguageModel
from pisoft.seeds import keyed_generator
from pisoft.store.parquet import (
    NO_CONTENT_TOKENS,
    NONFINITE_ATTRIBUTION,
    NONFINITE_LOGITS,
    NOT_APPLICABLE,
    OK,
    TOO_LONG_FOR_MEMORY,
)
from pisoft.store.scope import perturbable_positions

Row = dict[str, Any]
Perturbation = Operator | Literal["replace"]
# Sample id, what happens to tokens that are not kept, and which perturbable tokens are kept.
Key = tuple[str, Perturbation, bytes]
CURVES = ("deletion", "insertion")
COUNTERFACTUAL = "counterfactual"
_ANSWERS: dict[FlipOf, str] = {"label_word": "predicted_label", "first_token": "greedy_token_id"}
STEP = 0  # a classification explains one token, that of the label word


@dataclass(frozen=True)
class RankedSample:
    """A sample, and what every step of each curve keeps of it.

    Attributes:
        prompt: row of contract `prompts`.
        answer: of the clean prompt: the preferred label word, or the first token's id.
        perturbable: positions in the prompt that a perturbation may touch, increasing, (m,).
        kept: by curve and step, which of these are kept, (C, S, m).
        replacements: token ids that counterfactuals have there, (m,); None: there are none.
    """

    prompt: Row
    answer: str | int
    perturbable: np.ndarray
    kept: np.ndarray
    replacements: np.ndarray | None = None


@dataclass(frozen=True)
class PerturbedInput:
    """What the model reads when some of a sample's perturbable tokens are kept.

    Attributes:
        sample: whose input it is.
        kept: which perturbable tokens are kept, (m,).
        perturbation: what happens to the others.
        prefix: token ids in front, which no perturbation touches.
        token_ids: token ids behind the prefix, (T,).
        factors: what the embeddings of these are multiplied by, (T,).
    """

    sample: RankedSample
    kept: np.ndarray
    perturbation: Perturbation
    prefix: tuple[int, ...]
    token_ids: np.ndarray
    factors: np.ndarray

    @property
    def key(self) -> Key:
        """What tells it from every other input."""
        return _key(self.sample, self.perturbation, self.kept)


class RankingEvaluator:
    """Runs insertion, deletion and counterfactuals over blocks of samples.

    Args:
        seed: of the order of tokens with equal scores.
        token_budget: tokens per forward batch, to begin with.
        replace: gives the replacements of counterfactuals; None: there are none.

    Attributes:
        token_budget: the one in force; it is lowered for good if memory does not suffice.
        forwards: perturbed inputs run so far; one that several steps share is run once.
        tokens: tokens of these, without padding and without the prefixes, which inputs share.
    """

    def __init__(
        self,
        model: LanguageModel,
        settings: RankingSettings,
        scope: Scope,
        seed: int,
        token_budget: int,
        replace: Replace | None = None,
    ) -> None:
        self._model = model
        self._settings = settings
        self._scope = scope
        self._seed = seed
        self._replace = replace
        self._perturbations: dict[str, Perturbation] = dict.fromkeys(CURVES, settings.operator)
        if replace is not None:
            self._perturbations[COUNTERFACTUAL] = "replace"
        self.token_budget = token_budget
        self.forwards = 0
        self.tokens = 0

    def evaluate_block(self, block: Sequence[tuple[Row, Row, Row]]) -> list[Row]:
        """Return `ranking` rows of a block of samples, in their order and that of the curves.

        Given are rows of `prompts`, `generations` and, of step 0, `attributions`, side by side.
        """
        ranked = [self._ranked(*rows) for rows in block]
        samples = [sample for sample in ranked if isinstance(sample, RankedSample)]
        flips = self._flips(samples)
        rows = []
        for (prompt, _, _), sample in zip(block, ranked, strict=True):
            if isinstance(sample, RankedSample):
                rows += _rows(sample, flips, self._perturbations)
            else:
                rows += failed_rows(prompt, self._scope, sample, self._perturbations)
        return rows

    def _ranked(self, prompt: Row, generation: Row, attribution: Row) -> RankedSample | str:
        """Return what the steps keep of a sample, or the status of a sample that failed."""
        perturbable = perturbable_positions(prompt, self._scope)
        if attribution["status"] != OK:
            return attribution["status"]
        if not len(perturbable):
            return NO_CONTENT_TOKENS
        raw = np.asarray(attribution["raw_scores"], dtype=np.float64)[perturbable]
        if not np.isfinite(raw).all():
            return NONFINITE_ATTRIBUTION
        places = token_places(raw, self._seed, prompt["sample_id"])
        kept = kept_tokens(places, self._settings.steps)
        answer = generation[_ANSWERS[self._settings.flip_of]]
        if self._replace is None:
            return RankedSample(prompt, answer, perturbable, kept)
        replacements = self._replace(prompt, perturbable)
        kept = np.concatenate([kept, kept[:1]])  # a counterfactual keeps what deletion keeps
        return RankedSample(prompt, answer, perturbable, kept, replacements)

    def _flips(self, samples: Iterable[RankedSample]) -> dict[Key, bool | str]:
        """Return whether each input flips the answer, or the status of one that failed."""
        flips: dict[Key, bool | str] = {}
        waiting: dict[tuple[int, ...], list[PerturbedInput]] = defaultdict(list)
        for perturbed in self._inputs(samples):
            if perturbed.kept.all():
                flips[perturbed.key] = False  # the clean prompt, whatever rounding would say
            elif not len(perturbed.token_ids):
                flips[perturbed.key] = True
            else:
                waiting[perturbed.prefix].append(perturbed)
        for prefix, inputs in waiting.items():
            flips |= self._run(prefix, inputs)
        return flips

    def _inputs(self, samples: Iterable[RankedSample]) -> list[PerturbedInput]:
        """Return every input that is read at some step, once."""
        perturbations = self._perturbations.values()
        distinct = {
            _key(sample, perturbation, kept): (sample, kept, perturbation)
            for sample in samples
            for perturbation, of_curve in zip(perturbations, sample.kept, strict=True)
            for kept in of_curve
        }
        return [perturbed_input(self._model, *item) for item in distinct.values()]

    def _run(
        self, prefix_ids: tuple[int, ...], inputs: Sequence[PerturbedInput]
    ) -> dict[Key, bool | str]:
        """Run the inputs behind one prefix; the evaluator keeps the token budget that fitted."""
        read_prefix = cache(partial(_read_prefix, self._model, prefix_ids))
        given_up: set[str] = set()  # sample ids

        def work(batch: Sequence[PerturbedInput], token_budget: int) -> dict[Key, bool | str]:
            self.token_budget = token_budget
            fitting = [perturbed for perturbed in batch if perturbed.key[0] not in given_up]
            flips: dict[Key, bool | str] = {item.key: TOO_LONG_FOR_MEMORY for item in batch}
            if fitting:
                logits = next_token_logits(self._model, fitting, read_prefix())
                for perturbed, row in zip(fitting, logits, strict=True):
                    flips[perturbed.key] = _flipped(perturbed.sample, row)
            return flips

        def give_up(perturbed: PerturbedInput) -> dict[Key, bool | str]:
            sample_id, *_ = perturbed.key
            given_up.add(sample_id)
            name = f"ranking, model '{self._model.name}': sample {sample_id}"
            warn_too_long(name, len(prefix_ids) + _length(perturbed))
            return {perturbed.key: TOO_LONG_FOR_MEMORY}

        self.forwards += len(inputs)
        self.tokens += sum(map(_length, inputs))
        flips: dict[Key, bool | str] = {}
        for of_batch in fitted_batches(
            inputs,
            _length,
            self.token_budget,
            work,
            give_up,
            lambda length: self._model.arithmetic(len(prefix_ids) + length),
        ):
            flips |= of_batch
        return flips


def token_places(raw: np.ndarray, seed: int, sample_id: str) -> np.ndarray:
    """Return each perturbable token's place by finite raw scores (m,), 0 for the highest.

    Tokens with equal scores are ordered by lot, the same for every method.
    """
    lots = keyed_generator(seed, "ranking", sample_id, STEP).random(len(raw))
    return np.argsort(np.lexsort((lots, -raw)))


def kept_tokens(places: np.ndarray, steps: int) -> np.ndarray:
    """Return which tokens each step keeps by their places, (2, S, m), in the order of CURVES."""
    highest = places < step_counts(len(places), steps)[:, None]  # (S, m)
    return np.stack([~highest, highest])


def step_counts(tokens: int, steps: int) -> np.ndarray:
    """Return how many of the highest tokens each of the steps takes, (S,)."""
    return np.rint(np.arange(1, steps + 1) * tokens / steps)


def perturbed_input(
    model: LanguageModel, sample: RankedSample, kept: np.ndarray, perturbation: Perturbation
) -> PerturbedInput:
    """Return what the model reads when some of a sample's perturbable tokens are kept.

    Removing a token gives exactly what its key masked and the positions behind it moved up by one
    would give, for less work.

    Args:
        kept: which perturbable tokens are kept, (m,).
        perturbation: `remove` leaves the others out, `zero` multiplies their embeddings by 0,
            `replace` puts the sample's replacements in their places.
    """
    ids = np.array(sample.prompt["input_ids"])
    present = np.ones(len(ids), dtype=bool)
    if perturbation == "replace":
        assert sample.replacements is not None
        ids[sample.perturbable[~kept]] = sample.replacements[~kept]
    else:
        present[sample.perturbable] = kept
    factors = present.astype(np.float64)
    if perturbation == "remove":
        ids, factors = ids[present], factors[present]
    # The token in front of the first perturbable one may be all that is left to read.
    first = model.shareable(max(0, int(sample.perturbable[0]) - 1), len(ids))
    prefix = tuple(ids[:first].tolist())
    return PerturbedInput(sample, kept, perturbation, prefix, ids[first:], factors[first:])


@torch.inference_mode()
def next_token_logits(
    model: LanguageModel, inputs: Sequence[PerturbedInput], prefix: Cache | None
) -> torch.Tensor:
    """Return the logits behind each input, (B, V); all of them share the prefix."""
    ids = pad_sequence([torch.from_numpy(item.token_ids) for item in inputs], batch_first=True)
    factors = pad_sequence([torch.from_numpy(item.factors) for item in inputs], batch_first=True)
    last = torch.tensor([[_length(item) - 1] for item in inputs], device=model.device)
    embeddings = model.embed(ids.to(model.device))  # (B, T, d), padded on the right
    factors = factors.to(embeddings)
    return model.next_token_logits(embeddings * factors[..., None], last, prefix=prefix)[:, 0]


def failed_rows(
    prompt: Row, scope: Scope, status: str, curves: Iterable[str] = CURVES
) -> list[Row]:
    """Return the rows of a sample that carry a status and no numbers, one for each curve."""
    count = len(perturbable_positions(prompt, scope))
    return [_row(prompt, curve, count, None, status) for curve in curves]


def not_applicable_rows(prompts: Iterable[Row], scope: Scope) -> list[Row]:
    """Return the rows of samples that have no label words."""
    return [row for prompt in prompts for row in failed_rows(prompt, scope, NOT_APPLICABLE)]


def _rows(
    sample: RankedSample, flips: dict[Key, bool | str], perturbations: Mapping[str, Perturbation]
) -> list[Row]:
    """Return a sample's rows; its curves fail together, so that all cover the same samples."""
    flips_by_curve = [
        [flips[_key(sample, perturbation, kept)] for kept in of_curve]
        for perturbation, of_curve in zip(perturbations.values(), sample.kept, strict=True)
    ]
    failures = [flip for of_curve in flips_by_curve for flip in of_curve if isinstance(flip, str)]
    count, status = len(sample.perturbable), failures[0] if failures else OK
    return [
        _row(sample.prompt, curve, count, None if failures else of_curve, status)
        for curve, of_curve in zip(perturbations, flips_by_curve, strict=True)
    ]


def _row(prompt: Row, curve: str, count: int, flips: list[Any] | None, status: str) -> Row:
    return {
        "sample_id": prompt["sample_id"],
        "curve": curve,
        "perturbable": count,
        "flips": flips,
        "auc": None if flips is None else _value(curve, count, flips),
        "status": status,
    }


def _value(curve: str, count: int, flips: list[bool]) -> float:
    """Return the share of steps that flip, or of tokens replaced at the first; 1 without one."""
    if curve != COUNTERFACTUAL:
        return flips.count(True) / len(flips)
    replaced = step_counts(count, len(flips))
    return next((n / count for n, flip in zip(replaced, flips, strict=True) if flip), 1.0)


def _flipped(sample: RankedSample, logits: torch.Tensor) -> bool | str:
    """Return whether logits (V,) give another answer than those of the clean prompt."""
    if isinstance(sample.answer, int):
        finite = bool(logits.isfinite().all())
        return int(logits.argmax()) != sample.answer if finite else NONFINITE_LOGITS
    if not bool(logits[sample.prompt["label_token_ids"]].isfinite().all()):
        return NONFINITE_LOGITS
    word = sample.prompt["label_words"][preferred_label(sample.prompt, logits)]
    return word != sample.answer


def _key(sample: RankedSample, perturbation: Perturbation, kept: np.ndarray) -> Key:
    return sample.prompt["sample_id"], perturbation, kept.tobytes()


def _length(perturbed: PerturbedInput) -> int:
    return len(perturbed.token_ids)


@torch.inference_mode()
def _read_prefix(model: LanguageModel, token_ids: Sequence[int]) -> Cache | None:
    ids = torch.tensor([token_ids], dtype=torch.long, device=model.device)
    return model.read_prefix(model.embed(ids))
