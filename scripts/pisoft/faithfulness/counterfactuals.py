"""Replacements of tokens, from which counterfactual prompts are made.

Where tokens are removed or zeroed, the model may change its answer because it has never read such
an input. A prompt whose tokens are replaced by others stays a prompt of the same length (Kamahi and
Yaghoobzadeh 2024; MiCE: Ross et al. 2021). Every token has one replacement, whatever the method and
whichever other tokens are replaced, so that methods are compared on the same replacements.

Shapes: m perturbable tokens, C proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pisoft.config.base import Scope
from pisoft.config.jobs.cells import RankingJob
from pisoft.models.masked import (
    MaskedLanguageModel,
    check_replacements,
    load_masked_model,
    replacements,
)
from pisoft.models.model import LanguageModel
from pisoft.models.repository import located
from pisoft.seeds import keyed_generator
from pisoft.store.cells import read_prompts
from pisoft.store.scope import perturbable_positions

Row = dict[str, Any]
Replace = Callable[[Row, np.ndarray], np.ndarray]
"""Returns the token ids (m,) that replace those of a row of `prompts` at its positions (m,)."""

PROPOSALS = 10  # of the masked model for a token, as ReAGent has them


def replacements_of(
    settings: RankingJob, files: Sequence[Path], model: LanguageModel, token_budget: int
) -> tuple[Replace | None, dict[str, Any]]:
    """Return what gives the replacements of a job, None without any, and provenance of it.

    Args:
        files: of the masked model, see :func:`located`; or prompts of all parts of the dataset.
        token_budget: tokens per forward batch of the masked model.

    Raises:
        BenchmarkError: a file cannot be read, or as :func:`proposed`.
    """
    if not files:
        return None, {}
    if settings.ranking.counterfactuals == "records":
        prompts = (row for path in files for row in read_prompts(path))
        return drawn(prompts, settings.scope, settings.seed), {}
    assert settings.masked_model is not None
    masked = load_masked_model(*located(settings.masked_model, files), model.device)
    facts = {"masked_model_commit": masked.commit}
    return proposed(masked, model.tokenizer, settings.seed, token_budget), facts


def proposed(masked: MaskedLanguageModel, tokenizer: Any, seed: int, token_budget: int) -> Replace:
    """Return what draws replacements from a masked model's proposals, by their probability.

    Each token is masked alone in the original text. Special tokens, and tokens that are no whole
    character, stay.

    Raises:
        BenchmarkError: the masked model shares too few pieces with the explained model.
    """
    check_replacements(masked, tokenizer, PROPOSALS)

    def replace(prompt: Row, positions: np.ndarray) -> np.ndarray:
        ids, indices = prompt["input_ids"], positions.tolist()
        every = replacements(masked, tokenizer, ids, PROPOSALS, token_budget, indices)
        candidates, probabilities = (tensor.numpy()[positions] for tensor in every)  # (m, C)
        cumulative = probabilities.astype(np.float64).cumsum(axis=1)
        draws = _uniforms(prompt, positions, seed)[:, None] * cumulative[:, -1:]
        chosen = (draws >= cumulative).sum(axis=1).clip(max=PROPOSALS - 1)
        return candidates[np.arange(len(positions)), chosen]

    return replace


def drawn(prompts: Iterable[Row], scope: Scope, seed: int) -> Replace:
    """Return what draws replacements from the perturbable tokens of prompts, by their frequency.

    The prompts are all of a dataset. A token is replaced by another one; it stays if there is none.
    """
    tokens = [np.asarray(p["input_ids"], int)[perturbable_positions(p, scope)] for p in prompts]
    pool = np.sort(np.concatenate(tokens))

    def replace(prompt: Row, positions: np.ndarray) -> np.ndarray:
        ids = np.asarray(prompt["input_ids"])[positions]
        first, behind = (np.searchsorted(pool, ids, side) for side in ("left", "right"))
        candidates = len(pool) - (behind - first)
        indices = (_uniforms(prompt, positions, seed) * candidates).astype(int)
        indices += np.where(indices < first, 0, behind - first)  # skips the token itself
        return np.where(candidates > 0, pool[np.minimum(indices, len(pool) - 1)], ids)

    return replace


def _uniforms(prompt: Row, positions: np.ndarray, seed: int) -> np.ndarray:
    return keyed_generator(seed, "counterfactual", prompt["sample_id"]).random(len(positions))
