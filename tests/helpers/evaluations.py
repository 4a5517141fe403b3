"""Shortcuts for tests of the evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pisoft.config.evaluation import EvaluationSettings
from pisoft.faithfulness.perturbation import Perturbations, PerturbationTarget, Perturber
from pisoft.faithfulness.soft import METRICS, StepEvaluation, measure_draws
from pisoft.models.model import LanguageModel

WHOLE_BUDGET = 10_000  # tokens: everything in these tests fits one batch


def masks_of(target: PerturbationTarget, masks: np.ndarray) -> Perturbations:
    """Return perturbations by given masks, (N, m) for tokens or (N, m, d) for elements."""
    masks = masks[..., None] if masks.ndim == 2 else masks
    return Perturbations(target, len(masks), lambda number: masks[number])


def distances(
    model: LanguageModel,
    target: PerturbationTarget,
    masks: np.ndarray,
    token_budget: int = WHOLE_BUDGET,
    protocol: Any = "dynamic",
    operator: Any = "zero",
) -> np.ndarray:
    """Return Hellinger distances of masks (N, m) on one target, (N,)."""
    perturber = Perturber(model, token_budget, protocol, operator)
    (measured,) = perturber.measure([masks_of(target, masks)])
    return measured[:, 0]


def evaluated(
    model: LanguageModel,
    cases: Sequence[tuple[PerturbationTarget, dict[str, Any]]],
    settings: EvaluationSettings,
    seed: int = 1,
    token_budget: int = WHOLE_BUDGET,
    protocol: Any = "dynamic",
) -> list[list[dict[str, Any]]]:
    """Return the rows of each case (a target and its attribution), evaluated in one block."""
    steps = [StepEvaluation(row, target, settings, seed, model.width) for target, row in cases]
    perturber = Perturber(model, token_budget, protocol)
    measure_draws(perturber, steps, dict.fromkeys(METRICS, range(settings.most_draws)))
    return [step.rows() for step in steps]
