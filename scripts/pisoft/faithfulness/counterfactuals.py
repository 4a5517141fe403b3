"""Replacement tokens for counterfactual prompts.

Removed or zeroed tokens may change the answer only because the input is off-distribution. Replacing
tokens keeps a prompt of the same length (Kamahi and Yaghoobzadeh 2024; MiCE: Ross et al. 2021).
Each token of a sample has a single replacement, so all methods are compared on the same
replacements.

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
"""Return the replacement token ids (m,) for positions (m,) of a row of `prompts`."""

PROPOSALS = 10  # of the masked model for a token, as ReAGent has them


def replacements_of(
    settings: RankingJob, files: Sequence[Path], model: LanguageModel, token_budget: int
) -> tuple[Replace | None, dict[str, Any]]:
    """Return the function that replaces tokens in a job, if any, and its provenance.

    Args:
        files: files of the masked model, see :func:`located`; or all prompts of the dataset.
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
    """Return a function that draws replacements from a masked model's predictions.

    Each token is masked on its own in the original text. Special tokens and tokens that split a
    character are not replaced.

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
    """Return a function that draws replacements from the perturbable tokens of a dataset's prompts.

    Tokens are drawn by frequency, never the replaced token itself; without another, it stays.
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
