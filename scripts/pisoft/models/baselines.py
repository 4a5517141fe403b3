"""Baseline embeddings: what an input without information looks like."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, Literal

import torch

from pisoft.errors import BenchmarkError
from pisoft.models.model import LanguageModel
from pisoft.models.precision import at_least_float32

logger = logging.getLogger(__name__)


def baseline_embeddings(
    model: LanguageModel, input_ids: torch.Tensor, kind: Literal["reference", "zero"]
) -> torch.Tensor:
    """Return the baseline of token ids (B, T) as embeddings (B, T, d), float32 or better.

    `reference` is what Inseq compares with: the embedding of the unknown token, else of the
    padding token, else of the end-of-sequence token, at every position but those of
    end-of-sequence tokens, which stay as they are. A reference that ends texts is warned of.

    Raises:
        BenchmarkError: `reference`, and the model's tokenizer has none of these tokens.
    """
    if kind == "zero":
        return torch.zeros_like(at_least_float32(model.embed(input_ids)))
    tokenizer = model.tokenizer
    reference = reference_token(tokenizer)
    if reference is None:
        raise BenchmarkError(
            f"model '{model.name}': option baseline: 'reference' needs an unknown, padding or "
            "end-of-sequence token, and the tokenizer has none of them; 'zero' needs none"
        )
    text = tokenizer.convert_ids_to_tokens(reference)
    if reference == tokenizer.eos_token_id or "endoftext" in text:
        _warn_of_end(model.name, text)
    ids = torch.full_like(input_ids, reference)
    if tokenizer.eos_token_id is not None:
        ids = torch.where(input_ids == tokenizer.eos_token_id, input_ids, ids)
    return at_least_float32(model.embed(ids))


def reference_token(tokenizer: Any) -> int | None:
    """Return the id of the unknown, padding or end token, whichever exists first; else None."""
    candidates = (tokenizer.unk_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id)
    return next((token for token in candidates if token is not None), None)


@cache
def _warn_of_end(model: str, token: str) -> None:
    """Say once that a model's reference token ends texts."""
    logger.warning(
        "model '%s': the reference token, %s, ends texts: wherever it stands, the answer is lost, "
        "so scores of a prompt are nearly equal; option baseline: 'zero' needs no token",
        model,
        token,
    )
