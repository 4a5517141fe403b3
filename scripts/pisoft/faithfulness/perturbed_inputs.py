"""The model's inputs when tokens of a sample are deleted, inserted or replaced.

Shapes: m perturbable tokens, C curves, S steps, B inputs, T tokens of an input, A tokens that an
answer is read from, V vocabulary size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import Cache

from pisoft.config.base import Operator
from pisoft.faithfulness.answer_deletion import GeneratedAnswer
from pisoft.models.model import LanguageModel

Row = dict[str, Any]
Perturbation = Operator | Literal["replace"]
# Sample id, what happens to tokens that are not kept, and which perturbable tokens are kept.
Key = tuple[str, Perturbation, bytes]


@dataclass(frozen=True)
class RankedSample:
    """A sample, and the tokens that each step of each curve keeps."""

    prompt: Row
    # Of the clean prompt: the preferred label word, the first token's id, or what was generated.
    answer: str | int | GeneratedAnswer
    perturbable: np.ndarray  # positions that a perturbation may touch, increasing, (m,)
    raw: np.ndarray  # their scores, the sums over all explained tokens, (m,)
    perturbations: Mapping[str, Perturbation]  # of each curve that is read
    kept: np.ndarray  # by such curve and step, which tokens are kept, (C, S, m)
    replacements: np.ndarray | None = None  # ids that counterfactuals have there, (m,), if any


@dataclass(frozen=True)
class PerturbedInput:
    """What the model reads when some of a sample's perturbable tokens are kept."""

    sample: RankedSample
    kept: np.ndarray  # which perturbable tokens are kept, (m,)
    perturbation: Perturbation  # what happens to the others
    prefix: tuple[int, ...]  # token ids in front, which no perturbation touches
    token_ids: np.ndarray  # after the prefix, a generated answer included, (T,)
    factors: np.ndarray  # what the embeddings of these are multiplied by, (T,)

    @property
    def key(self) -> Key:
        """What tells it from every other input."""
        return key_of(self.sample, self.perturbation, self.kept)

    @property
    def ends(self) -> tuple[int, ...]:
        """Which of the token ids are in front of the tokens that the answer is read from."""
        answer, length = self.sample.answer, len(self.token_ids)
        if not isinstance(answer, GeneratedAnswer):
            return (length - 1,)
        return tuple(length - len(answer.read) + step - 1 for step in answer.steps)

    @property
    def is_empty(self) -> bool:
        """Whether no token of the prompt is left."""
        return not self.prefix and self.ends[0] < 0


def key_of(sample: RankedSample, perturbation: Perturbation, kept: np.ndarray) -> Key:
    """Return the key that identifies an input."""
    return sample.prompt["sample_id"], perturbation, kept.tobytes()


def perturbed_input(
    model: LanguageModel, sample: RankedSample, kept: np.ndarray, perturbation: Perturbation
) -> PerturbedInput:
    """Return the model's input when some perturbable tokens of a sample are kept.

    Removing a token is equivalent to masking its key and shifting later positions by one, for less
    work.

    Args:
        kept: whether each perturbable token is kept, (m,).
        perturbation: what happens to the other tokens: `remove` drops them, `zero` multiplies their
            embeddings by 0, `replace` substitutes the sample's replacements.
    """
    read = sample.answer.read if isinstance(sample.answer, GeneratedAnswer) else ()
    ids = np.array([*sample.prompt["input_ids"], *read])
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
    """Return the logits of the tokens that each answer is read from, (B, A, V).

    All inputs share the prefix. The last token of inputs shorter than A is repeated.
    """
    ids = pad_sequence([torch.from_numpy(item.token_ids) for item in inputs], batch_first=True)
    factors = pad_sequence([torch.from_numpy(item.factors) for item in inputs], batch_first=True)
    most = max(len(item.ends) for item in inputs)
    ends = [[*item.ends, *item.ends[-1:] * (most - len(item.ends))] for item in inputs]
    positions = torch.tensor(ends, device=model.device)
    embeddings = model.embed(ids.to(model.device))  # (B, T, d), padded on the right
    factors = factors.to(embeddings)
    return model.next_token_logits(embeddings * factors[..., None], positions, prefix=prefix)
