"""Replacing tokens: baselines of whole inputs, and ablation of single tokens.

Shapes: B samples; n masks; T positions; m perturbable tokens; d embedding width.
"""

from __future__ import annotations

import logging
from typing import Literal

import torch

from pisoft.config.base import Ablation
from pisoft.errors import BenchmarkError
from pisoft.models.model import LanguageModel
from pisoft.models.precision import at_least_float32

logger = logging.getLogger(__name__)

CHUNK = 4096  # embeddings of the vocabulary summed at a time
BASELINE = "option baseline: 'reference' needs; 'zero' needs none"


def baseline_embeddings(
    model: LanguageModel, input_ids: torch.Tensor, kind: Literal["reference", "zero"]
) -> torch.Tensor:
    """Return the baseline of token ids (B, T) as embeddings (B, T, d), float32 or better.

    `reference` is the baseline of Inseq: every token except end-of-sequence tokens is replaced by
    the unknown token, else the padding token, else the end-of-sequence token.

    Raises:
        BenchmarkError: `reference`, and the model's tokenizer has none of these tokens.
    """
    if kind == "zero":
        return torch.zeros_like(at_least_float32(model.embed(input_ids)))
    ids = torch.full_like(input_ids, reference_token(model, BASELINE))
    if (end := model.tokenizer.eos_token_id) is not None:
        ids = torch.where(input_ids == end, input_ids, ids)
    return at_least_float32(model.embed(ids))


def reference_token(model: LanguageModel, use: str) -> int:
    """Return the id of the unknown, padding or end token, whichever exists first.

    A padding token known only to the tokenizer has no embedding and does not count.

    Args:
        use: what needs the token; ends the error message.

    Raises:
        BenchmarkError: the model's tokenizer has none of them.
    """
    tokenizer, embedded = model.tokenizer, range(model.vocabulary_size)
    candidates = (tokenizer.unk_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id)
    token = next((token for token in candidates if token in embedded), None)
    if token is None:
        raise BenchmarkError(
            f"model '{model.name}': its tokenizer has no unknown, padding or end token, which {use}"
        )
    return int(token)


def warn_of_end(model: LanguageModel) -> None:
    """Warn that perturbed inputs lose the answer if the reference token ends texts.

    Raises:
        BenchmarkError: the model's tokenizer has no reference token.
    """
    token = reference_token(model, BASELINE)
    text = model.tokenizer.convert_ids_to_tokens(token)
    if token == model.tokenizer.eos_token_id or "endoftext" in text:
        logger.warning(
            "model '%s': the reference token, %s, ends texts: wherever it stands, the answer is "
            "lost, so scores of a prompt are nearly equal; option baseline: 'zero' needs no token",
            model.name,
            text,
        )


class Ablator:
    """Ablates the tokens outside a mask, by an `evaluation.operator`.

    Raises:
        BenchmarkError: the model cannot hide keys, or its tokenizer has no reference token.
    """

    def __init__(self, model: LanguageModel, operator: Ablation) -> None:
        if operator == "hide":
            model.require("hidden keys", "operator 'hide'")
        self._hides = operator == "hide"
        self._fill = _FILLS[operator](model) if operator in _FILLS else None

    def __call__(
        self, embeddings: torch.Tensor, columns: torch.Tensor, kept: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the embeddings (n, T, d) and, if keys are hidden, a visibility mask (n, T).

        Args:
            embeddings: of the clean input, (T, d).
            columns: positions of the perturbable tokens, (m,).
            kept: masks, (n, m, 1) of whole tokens or (n, m, d) of elements.
        """
        perturbed = embeddings.repeat(len(kept), 1, 1)
        if self._hides:
            visible = torch.ones(perturbed.shape[:2], dtype=torch.bool, device=perturbed.device)
            visible[:, columns] = kept[..., 0].to(visible)
            return perturbed, visible
        share = kept.to(perturbed)
        perturbed[:, columns] *= share
        if self._fill is not None:
            perturbed[:, columns] += self._fill * (1 - share)
        return perturbed, None


@torch.inference_mode()
def mean_embedding(model: LanguageModel) -> torch.Tensor:
    """Return the mean embedding of the vocabulary, (d,)."""
    ids = torch.arange(model.vocabulary_size, device=model.device)
    sums = [model.embed(chunk[None]).double().sum(dim=(0, 1)) for chunk in ids.split(CHUNK)]
    return (torch.stack(sums).sum(dim=0) / len(ids)).to(model.embed(ids[None, :1]).dtype)


@torch.inference_mode()
def unknown_embedding(model: LanguageModel) -> torch.Tensor:
    """Return the embedding of the tokenizer's unknown, else padding, else end token, (d,).

    Raises:
        BenchmarkError: it has none of them.
    """
    token = reference_token(model, "operator 'unknown' needs")
    return model.embed(torch.tensor([[token]], device=model.device))[0, 0]


_FILLS = {"mean": mean_embedding, "unknown": unknown_embedding}
