"""Soft-NC and Soft-NS, original and π-calibrated, under both routing protocols.

Only the distance of every draw is computed here; the metrics are means of them (see
:mod:`pisoft.analysis.summary`). Shapes: m perturbable tokens, K draws, P retaining probabilities,
V vocabulary size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pisoft.config import EvaluationSettings, Protocol, Scope
from pisoft.contracts import (
    DEGENERATE_BASELINE,
    NO_CONTENT_TOKENS,
    NONFINITE_ATTRIBUTION,
    NONFINITE_LOGITS,
    OK,
)
from pisoft.faithfulness.calibration import Calibration, calibrate, clip_scores
from pisoft.faithfulness.distances import hellinger, root_probabilities
from pisoft.faithfulness.masks import ORIGINAL, keyed_uniforms, retained
from pisoft.faithfulness.scores import normalise
from pisoft.lm.attention import AttentionRecorder, AttentionReplay
from pisoft.lm.model import LanguageModel


@dataclass(frozen=True)
class PerturbationTarget:
    """What is perturbed at one step: the tokens read, and which of them may be touched.

    Attributes:
        token_ids: prompt and the generated tokens before the step.
        perturbable: positions in the prompt that a perturbation may touch, increasing, (m,).
    """

    token_ids: Sequence[int]
    perturbable: np.ndarray


class SoftPerturber:
    """Runs one step's perturbed forwards: masks in, distances to the clean prediction out.

    Tokens before the first perturbable one do not depend on the mask, so their keys and values
    are computed once. With `fixed` routing, every forward, that of the clean input and of the zero
    baseline included, replays the attention of the clean input (paper §Evaluation Protocols).

    Args:
        model: the explained model.
        target: what the step has read.
        token_budget: tokens per forward batch.
        protocol: `dynamic` or `fixed` routing.
    """

    def __init__(
        self,
        model: LanguageModel,
        target: PerturbationTarget,
        token_budget: int,
        protocol: Protocol = "dynamic",
    ) -> None:
        self._model = model
        first = int(target.perturbable[0])
        with torch.inference_mode():
            embeddings = model.embed(torch.tensor([target.token_ids], device=model.device))
            self._prefix = model.read_prefix(embeddings[:, :first])
        self._embeddings = embeddings[:, first:]  # (1, T, d)
        self._columns = torch.from_numpy(target.perturbable - first).to(model.device)
        self._replay = self._record() if protocol == "fixed" else None
        self._batch_size = max(1, token_budget // self._embeddings.shape[1])
        everything = np.ones((1, len(target.perturbable)), dtype=bool)
        self._clean_roots = next(self._roots(everything))  # (1, V)

    def distances(self, masks: np.ndarray) -> np.ndarray:
        """Return H(clean, perturbed) for masks (N, m), true where a token is kept; (N,) float32.

        NaN where the model's logits are not finite.
        """
        found = [hellinger(self._clean_roots, roots) for roots in self._roots(masks)]
        return torch.cat(found).float().cpu().numpy()

    @torch.inference_mode()
    def _record(self) -> AttentionReplay:
        """Record the attention of the clean input in every layer."""
        recorder = AttentionRecorder(layers=range(self._model.layers), by_maps=True)
        self._model.hidden_states(self._embeddings, probe=recorder, prefix=self._prefix)
        return AttentionReplay(recorder.inputs)

    @torch.inference_mode()
    def _roots(self, masks: np.ndarray) -> Iterator[torch.Tensor]:
        """Yield root probabilities of the next token, (batch, V), batch by batch."""
        kept = torch.from_numpy(masks).to(self._model.device)
        last = torch.tensor([[self._embeddings.shape[1] - 1]], device=self._model.device)
        for batch in kept.split(self._batch_size):
            factors = self._embeddings.new_ones(len(batch), self._embeddings.shape[1])
            factors[:, self._columns] = batch.to(factors.dtype)
            logits = self._model.next_token_logits(
                self._embeddings * factors[..., None],
                last.expand(len(batch), 1),
                probe=self._replay,
                prefix=self._prefix,
            )
            yield root_probabilities(logits[:, 0])


def perturbable_positions(prompt: dict[str, Any], scope: Scope) -> np.ndarray:
    """Return the prompt positions that a scope lets a perturbation touch, (m,)."""
    masks = {
        "content": prompt["content_mask"],
        "user_turn": prompt["user_mask"],
        "all_but_bos": [not bos for bos in prompt["bos_mask"]],
        "all": [True] * len(prompt["input_ids"]),
    }
    return np.flatnonzero(masks[scope])


def evaluate_step(
    model: LanguageModel,
    target: PerturbationTarget,
    attribution: dict[str, Any],
    settings: EvaluationSettings,
    seed: int,
    token_budget: int,
    protocol: Protocol = "dynamic",
) -> list[dict[str, Any]]:
    """Evaluate one attribution row: a row of contract `soft` for α = 1 and for every π.

    Args:
        model: the explained model.
        target: what the step has read.
        attribution: row of contract `attributions`.
        settings: scope, normalisation, π grid, draws.
        seed: seed of the masks.
        token_budget: tokens per forward batch.
        protocol: `dynamic` or `fixed` routing.
    """
    status = attribution["status"]
    count = len(target.perturbable)
    if status == OK and count == 0:
        status = NO_CONTENT_TOKENS
    if status != OK:
        return failed_rows(attribution, settings, count, status)
    raw = np.asarray(attribution["raw_scores"], dtype=np.float64)[target.perturbable]
    if not np.isfinite(raw).all():
        return failed_rows(attribution, settings, count, NONFINITE_ATTRIBUTION)
    scores = normalise(raw, settings.normalisation)
    present = np.ones((1, count), dtype=bool)
    calibration = calibrate(scores[None], present, np.array(settings.pi_grid), settings.score_floor)
    masks = _masks(attribution, scores, calibration, settings, seed)  # (P + 1, K, m)
    perturber = SoftPerturber(model, target, token_budget, protocol)
    h0 = float(perturber.distances(np.zeros((1, count), dtype=bool))[0])
    if not np.isfinite(h0):
        return failed_rows(attribution, settings, count, NONFINITE_LOGITS)
    if h0 < settings.minimum_h0:
        rows = failed_rows(attribution, settings, count, DEGENERATE_BASELINE)
        return [{**row, "h0": h0} for row in rows]
    distances = perturber.distances(np.concatenate([masks, ~masks]).reshape(-1, count))
    kept, removed = distances.reshape(2, *masks.shape[:2])
    return _rows(attribution, settings, scores, calibration, h0, kept, removed)


def failed_rows(
    attribution: dict[str, Any], settings: EvaluationSettings, count: int, status: str
) -> list[dict[str, Any]]:
    """Return rows that carry a status and no numbers, one for α = 1 and one for every π."""
    empty = dict.fromkeys(
        ("alpha", "achieved", "feasible", "floored", "ceiled", "h0", "ns_distances", "nc_distances")
    )
    return [
        {
            "sample_id": attribution["sample_id"],
            "step": attribution["step"],
            "pi": pi,
            "perturbable": count,
            **empty,
            "status": status,
        }
        for pi in (None, *settings.pi_grid)
    ]


def _masks(
    attribution: dict[str, Any],
    scores: np.ndarray,
    calibration: Calibration,
    settings: EvaluationSettings,
    seed: int,
) -> np.ndarray:
    """Return kept-token masks for α = 1 (first) and for every π, (P + 1, K, m)."""
    clipped = clip_scores(scores, settings.score_floor)
    probabilities = [scores, *(clipped**alpha for alpha in calibration.alpha[0])]
    indices = [ORIGINAL, *range(len(settings.pi_grid))]
    return np.stack(
        [
            retained(
                keyed_uniforms(
                    seed,
                    attribution["sample_id"],
                    attribution["step"],
                    index,
                    settings.draws,
                    len(scores),
                ),
                probability,
            )
            for index, probability in zip(indices, probabilities, strict=True)
        ]
    )


def _rows(
    attribution: dict[str, Any],
    settings: EvaluationSettings,
    scores: np.ndarray,
    calibration: Calibration,
    h0: float,
    kept: np.ndarray,
    removed: np.ndarray,
) -> list[dict[str, Any]]:
    """Return one row per retaining probability; kept and removed are distances (P + 1, K)."""
    alphas = [1.0, *calibration.alpha[0].tolist()]
    achieved = [float(scores.mean()), *calibration.achieved[0].tolist()]
    feasible = [True, *calibration.feasible[0].tolist()]
    rows = []
    for index, pi in enumerate((None, *settings.pi_grid)):
        finite = np.isfinite(kept[index]).all() and np.isfinite(removed[index]).all()
        rows.append(
            {
                "sample_id": attribution["sample_id"],
                "step": attribution["step"],
                "pi": pi,
                "perturbable": len(scores),
                "alpha": alphas[index],
                "achieved": achieved[index],
                "feasible": feasible[index],
                "floored": int(calibration.floored[0]),
                "ceiled": int(calibration.ceiled[0]),
                "h0": h0,
                "ns_distances": kept[index].tolist(),
                "nc_distances": removed[index].tolist(),
                "status": OK if finite else NONFINITE_LOGITS,
            }
        )
    return rows
