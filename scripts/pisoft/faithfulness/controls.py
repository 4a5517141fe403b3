"""Constructed scores that validate the metrics.

A sound metric ranks an oracle, which scores the evidence, above its noisy versions, and the
inverted oracle last. Other controls depend on the position only, or permute a method's scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pisoft.config.base import Scope, ScoresOf
from pisoft.config.studies import Control, Permuted
from pisoft.seeds import keyed_generator
from pisoft.store.parquet import NO_CONTENT_TOKENS, NO_EVIDENCE, OK
from pisoft.store.scope import perturbable_positions

Row = dict[str, Any]


def control_rows(
    prompt: Mapping[str, Any],
    generation: Mapping[str, Any],
    control: Control,
    scope: Scope,
    seed: int,
    step_scores: ScoresOf = "own",
) -> list[Row]:
    """Return rows of contract `attributions` for every explained step of a sample.

    A sample that failed before gives one row with its status, at step 0, as for any method.

    Args:
        prompt, generation: rows of contracts `prompts` and `generations`.
        control: how the scores are constructed; tokens out of scope score 0.
        step_scores: `aggregated` draws the noise once for all steps, since averaging would reduce
            it.
    """
    if generation["status"] != OK:
        return [_row(prompt, 0, None, generation["status"])]
    positions = perturbable_positions(prompt, scope)
    steps = generation["steps"]
    evidence = np.array(prompt["evidence_mask"] or [False] * len(prompt["input_ids"]))[positions]
    if positions.size == 0:
        return [_row(prompt, step, None, NO_CONTENT_TOKENS) for step in steps]
    if control.needs_evidence and not evidence.any():
        return [_row(prompt, step, None, NO_EVIDENCE) for step in steps]
    rows = []
    for step in steps:
        raw = np.zeros(len(prompt["input_ids"]))
        key = (seed, "noise", prompt["sample_id"], *((step,) if step_scores == "own" else ()))
        raw[positions] = _scores(control, evidence, key)
        rows.append(_row(prompt, step, raw, OK))
    return rows


def permuted_rows(
    prompt: Mapping[str, Any],
    attributions: Sequence[Mapping[str, Any]],
    permutation: Permuted,
    scope: Scope,
    seed: int,
) -> list[Row]:
    """Return a sample's rows of `attributions` with the perturbable tokens' scores shuffled.

    All steps and methods share the permutation of a sample, so the mean over steps is permuted in
    the same way. Failed rows stay unchanged.

    Args:
        prompt: row of contract `prompts`.
        attributions: the sample's rows from the method whose scores are permuted.
    """
    positions = perturbable_positions(prompt, scope)
    generator = keyed_generator(seed, "permuted twin", permutation.number, prompt["sample_id"])
    order = generator.permutation(positions)
    rows = []
    for row in attributions:
        raw = None
        if row["raw_scores"] is not None:
            raw = np.asarray(row["raw_scores"], dtype=np.float32)
            raw[positions] = raw[order]
        rows.append(_row(prompt, row["step"], raw, row["status"]))
    return rows


def _scores(control: Control, evidence: np.ndarray, key: tuple[object, ...]) -> np.ndarray:
    if control.scores == "oracle":
        noise = keyed_generator(*key).standard_normal(evidence.size)
        return evidence + control.noise * noise
    return {
        "anti_oracle": 1.0 - evidence,
        "position": np.arange(evidence.size, dtype=np.float64),
        "uniform": np.ones(evidence.size),
        "first_token": np.eye(1, evidence.size)[0],
    }[control.scores]


def _row(prompt: Mapping[str, Any], step: int, raw: np.ndarray | None, status: str) -> Row:
    return {
        "sample_id": prompt["sample_id"],
        "step": step,
        "raw_scores": None if raw is None else raw.tolist(),
        "converged": None,
        "status": status,
    }
