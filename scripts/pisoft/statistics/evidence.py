"""Recovery of evidence: whether the words that decide the answer have the highest scores.

A record marks k of the m perturbable tokens of its prompt as evidence. The metrics of the scores s
of one step are

- top_1_in_evidence: 1 if the highest score is on evidence, else 0;
- recovery_at_k: the share of evidence among the k highest scores (R-precision);
- mass_on_evidence: Σ s over the evidence / Σ s over all perturbable tokens;
- evidence_auprc: average precision: the mean over the evidence tokens of the share of evidence
  among all scores at least as high as theirs;
- recall_at_10_percent: the share of the evidence among the ⌈m / 10⌉ highest scores;
- recall_by_chance = ⌈m / 10⌉ / m, its mean for uninformative scores;
- evidence_by_chance = k / m, the mean of the first three for uninformative scores;
- auprc_by_chance: the mean average precision for uninformative scores, without ties.

The first two and the recall are means over all orders of tied scores. The first is the hit of the
pointing game (Zhang et al. 2018); ERASER (DeYoung et al. 2020) uses average precision for token
scores. The value of a sample is the mean over its evaluated steps with scores, as for the soft
metrics; all steps share its evidence.

A record with counterfactuals counts only if its answer depends on its evidence: the model gives the
answer that a statement supports, and a different one when the statement names another answer. Only
this statement is then evidence. `evidence_depth` is the mean position of the evidence among the
perturbable tokens, from 0 (first) to 1 (last); `perturbable_tokens` is m.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import EvidenceJob
from pisoft.statistics.metrics import DEPTH, EVIDENCE_METRICS, RECALL, RECALL_BY_CHANCE, TOKENS
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.scores import StepScores, read_methods, steps_by_sample
from pisoft.store.parquet import ANSWER_NOT_STATED, ANSWER_UNCHANGED, NO_EVIDENCE, OK, read_rows

METRICS = (
    *(*EVIDENCE_METRICS, "evidence_by_chance", "auprc_by_chance"),
    *(RECALL, RECALL_BY_CHANCE, DEPTH, TOKENS),
)
RECALLED_SHARE = 0.1  # of the perturbable tokens


def summaries(files: Files, settings: EvidenceJob) -> dict[str, Summary]:
    """Return one file of samples, from all datasets with evidence."""
    answers = {
        (path.parent.name, path.stem): {
            row["sample_id"]: row for row in read_rows(path, "generations")
        }
        for path in files["generations"]
    }
    frames = []
    for model, method, dataset, steps in read_methods(files, settings):
        cell = {"model": model, "method": method, "dataset": dataset, "metric": METRICS}
        for sample_id, sample in steps_by_sample(steps):
            status, values = _sample(sample, method, answers[model, dataset][sample_id])
            rows = {**cell, "sample_id": sample_id, "status": status, "value": values}
            frames.append(pd.DataFrame(rows))
    return {"evidence_samples": frames}


def on_evidence(scores: np.ndarray, evidence: np.ndarray) -> tuple[float, ...]:
    """Return :data:`METRICS` of one step.

    `scores` (m,) of the perturbable tokens lie in [0, 1] and are not all 0; `evidence` (m,) is true
    for at least one.
    """
    k, m = int(evidence.sum()), evidence.size
    recalled = ceil(RECALLED_SHARE * m)
    return (
        share_of_highest(scores, evidence, 1),
        share_of_highest(scores, evidence, k),
        float(scores[evidence].sum() / scores.sum()),
        average_precision(scores, evidence),
        k / m,
        average_precision_by_chance(k, m),
        share_of_highest(scores, evidence, recalled) * recalled / k,
        recalled / m,
        float(np.flatnonzero(evidence).mean()) / max(m - 1, 1),
        m,
    )


def used_evidence(
    prompt: Mapping[str, Any], answer: Mapping[str, Any]
) -> tuple[str, list[bool] | None]:
    """Return whether the answer depends on evidence, as a status, and the mask of that evidence.

    `prompt` is a row of `prompts`; without counterfactuals, its marked evidence counts as used.
    `answer` is its row of `generations`.
    """
    if prompt["counterfactuals"] is None:
        return OK, prompt["evidence_mask"]
    pairs = zip(prompt["counterfactuals"], answer["counterfactual_labels"], strict=True)
    for one, label in pairs:
        if one["answer"] == answer["predicted_label"]:
            is_shown = label not in (None, one["answer"])
            return (OK if is_shown else ANSWER_UNCHANGED), one["evidence_mask"]
    return ANSWER_NOT_STATED, None


def share_of_highest(scores: np.ndarray, evidence: np.ndarray, count: int) -> float:
    """Return the share of the `count` highest scores on evidence, averaged over tie-breaks."""
    lowest = np.partition(scores, -count)[-count]
    above, tied = scores > lowest, scores == lowest
    by_lot = (count - above.sum()) * evidence[tied].mean()
    return float((evidence[above].sum() + by_lot) / count)


def average_precision(scores: np.ndarray, evidence: np.ndarray) -> float:
    """Return the mean over the evidence of the precision at its scores; ties are one threshold."""
    _, threshold = np.unique(-scores, return_inverse=True)  # 0 for the highest scores
    hits = np.bincount(threshold, weights=evidence)
    precision = hits.cumsum() / np.bincount(threshold).cumsum()
    return float((hits * precision).sum() / evidence.sum())


def average_precision_by_chance(k: int, m: int) -> float:
    """Return the mean average precision over all orders of m tokens, of which k are evidence.

    An evidence token has each rank i equally often, preceded by (i − 1) (k − 1) / (m − 1) others on
    average: the result is the mean of (1 + (i − 1) (k − 1) / (m − 1)) / i over i = 1 … m.
    """
    ranks = np.arange(1, m + 1)
    hits = (ranks - 1) * (k - 1) / max(m - 1, 1)
    return float(((1 + hits) / ranks).mean())


def _sample(
    steps: list[StepScores], method: str, answer: Mapping[str, Any]
) -> tuple[str, list[float | None]]:
    """Return the status and the metrics of a sample; None without scores or evidence."""
    scored = [step for step in steps if method in step.raw]
    if not scored:
        return steps[0].status[method], [None] * len(METRICS)
    status, marked = used_evidence(steps[0].prompt, answer)
    if status != OK:
        return status, [None] * len(METRICS)
    if marked is None or not (evidence := np.asarray(marked)[steps[0].perturbable]).any():
        return NO_EVIDENCE, [None] * len(METRICS)
    step_numbers = [on_evidence(step.scores(method), evidence) for step in scored]
    return OK, np.mean(step_numbers, axis=0).tolist()
