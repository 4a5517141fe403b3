"""The effect of half precision on scores: some explained steps are repeated in float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pisoft.attribution.base import AttributionMethod, is_compared
from pisoft.attribution.engine import usable_samples
from pisoft.models.batching import attempt
from pisoft.models.model import Batch, ExplainedSample, LanguageModel
from pisoft.models.precision import computing_in_float32
from pisoft.seeds import keyed_generator
from pisoft.store.parquet import OK

Row = dict[str, Any]


def compare_with_float32(
    method: AttributionMethod,
    model: LanguageModel,
    blocks: Sequence[Sequence[tuple[Row, Row]]],
    rows: Sequence[Row],
    first_block: int = 0,
) -> None:
    """Add `float32_agreement` to the rows of a model in half precision.

    It is Spearman's rank correlation with the scores in float32, over the prompt's tokens. In each
    repeated block, a key of seed, sample and step chooses one step. Other rows, constant scores,
    and steps that do not fit into memory have no agreement.

    Args:
        blocks: rows of `prompts` and `generations`, pairwise, of every block of samples.
        rows: their rows from `attribute_block`.
        first_block: index in the dataset of a shard's first block.
    """
    if not (model.is_half_precision and method.needs_model):
        return
    by_step = {(row["sample_id"], row["step"]): row for row in rows if row["status"] == OK}
    for index, pairs in enumerate(blocks, first_block):
        parts = [
            part
            for sample in (usable_samples(method, model, pairs) if is_compared(index) else ())
            for part in sample.apart()
            if (part.sample_id, part.steps[0]) in by_step
        ]
        if not parts:
            continue
        chosen = min(parts, key=partial(_chance, method.context.seed))
        again = attempt(partial(_scores_in_float32, method, model, chosen))
        if again is not None:
            row = by_step[chosen.sample_id, chosen.steps[0]]
            row["float32_agreement"] = _rank_correlation(np.array(row["raw_scores"]), again)


def _chance(seed: int, part: ExplainedSample) -> float:
    """Return a number in [0, 1) that depends only on the seed, the sample and the step."""
    key = (seed, part.sample_id, *part.steps)
    return float(keyed_generator("attributed in float32", *key).random())


def _rank_correlation(scores: np.ndarray, again: np.ndarray) -> float | None:
    """Return Spearman's correlation; None if scores are constant or not finite."""
    from scipy.stats import spearmanr  # takes half a second, which other models' jobs save

    if not np.isfinite(again).all() or 0 in (np.ptp(scores), np.ptp(again)):
        return None
    return float(spearmanr(scores, again).statistic)


def _scores_in_float32(
    method: AttributionMethod, model: LanguageModel, sample: ExplainedSample
) -> np.ndarray:
    """Return the scores (prompt tokens,) of one step, with all weights widened for its duration."""
    context = method.context
    method.context = replace(context, token_budget=max(1, context.token_budget // 2))
    try:
        with computing_in_float32(model.network):
            (scores,) = method.attribute(model, Batch([sample], model.device))
    finally:
        method.context = context
    return scores[0].detach().float().cpu().numpy()
