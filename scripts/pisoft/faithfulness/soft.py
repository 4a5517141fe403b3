"""Soft-NC and Soft-NS, original and π-calibrated, under both routing protocols.

This module measures how far each draw moves the prediction; :mod:`pisoft.statistics.soft` averages
over draws. Shapes: m perturbable tokens, d embedding width, K draws, P retaining probabilities. A
step has 1 + P rows: row 0 is of the original metrics (α = 1), row 1 + i of the π with index i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from pisoft.config.evaluation import DrawSettings
from pisoft.faithfulness.calibration import calibrate, retaining_probabilities
from pisoft.faithfulness.masks import calibrated_means, kept_tokens, masks_of, measured_pi
from pisoft.faithfulness.perturbation import MEASURES, Perturbations, PerturbationTarget, Perturber
from pisoft.faithfulness.scores import normalise
from pisoft.seeds import keyed_generator
from pisoft.store.parquet import (
    DEGENERATE_BASELINE,
    NO_CONTENT_TOKENS,
    NONFINITE_ATTRIBUTION,
    NONFINITE_LOGITS,
    OK,
    TOO_LONG_FOR_MEMORY,
)

METRICS = ("ns", "nc")  # masks keep by score, or remove by score
Draws = Mapping[str, range]  # indices of the draws to measure, by metric
BASELINES = 2  # masks that come before the first draws: everything zeroed, everything kept


class StepEvaluation:
    """One evaluated step: its calibrated scores, its masks and their measures.

    Args:
        attribution: row of contract `attributions`.
        width: embedding width of the model, d.
        indices: index of the sample in its dataset and of the step in its sample; with
            `pi_per_step`, they select the retaining probabilities to measure.
    """

    def __init__(
        self,
        attribution: Mapping[str, Any],
        target: PerturbationTarget,
        settings: DrawSettings,
        seed: int,
        width: int,
        indices: tuple[int, int] = (0, 0),
    ) -> None:
        self.sample_id = attribution["sample_id"]
        self.step = attribution["step"]
        self.target = target
        self.grid = settings.pi_grid
        chosen = measured_pi(len(self.grid), settings.pi_per_step, seed, indices)
        self._row_indices = [0, *(1 + chosen)]  # of the rows that are measured
        self._settings = settings
        self._key = (seed, self.sample_id, self.step)
        self._width = width if settings.mask == "element" else 1
        self._forget()
        self.status = _status_before(attribution, target)
        if self.status != OK:
            return
        raw = np.asarray(attribution["raw_scores"], dtype=np.float64)[target.perturbable]
        self._scores = normalise(raw, settings.normalisation)
        self._calibration = calibrate(
            self._scores,
            calibrated_means(settings.sampler, np.array(self.grid), raw.size),
            settings.score_floor,
        )

    def _forget(self) -> None:
        self.h0 = np.nan
        self._identity = np.nan
        row_count = 1 + len(self.grid)
        # By metric, (1 + P, draws, 3); NaN in rows that are not measured.
        self._measured = {
            metric: np.empty((row_count, 0, len(MEASURES)), dtype=np.float32) for metric in METRICS
        }
        self._in_float32: StepEvaluation | None = None

    def measure_in_float32(self, perturber: Perturber) -> None:
        """Repeat the first draw in float32, to measure the error of half precision.

        The error stays undefined if the step cannot be evaluated in float32.
        """
        again = copy(self)
        again._forget()
        again.target = replace(self.target, name=f"{self.target.name}, repeated in float32")

        # Compiled parts would be compiled once more for each layer's widened weights.
        with torch.compiler.set_stance("force_eager"), perturber.model.in_float32():
            measure_draws(perturber, [again], dict.fromkeys(METRICS, range(1)))
        distances = [measured[self._row_indices, :, 0] for measured in again._measured.values()]
        if np.isfinite(again.h0) and np.isfinite(distances).all():
            self._in_float32 = again

    def chance(self) -> float:
        """Return a number in [0, 1) that depends only on the seed, the sample and the step."""
        return float(keyed_generator("in single", *self._key).random())

    def perturbations(self, draws: Draws) -> Perturbations:
        """Return the masks of these draws in every measured row.

        The baselines precede the first draws. The masks of Soft-NC are the complements of those of
        Soft-NS.
        """
        baselines = [np.zeros, np.ones] if self._is_new else []
        keys = [
            (metric, row_index, draw)
            for metric in METRICS
            for row_index in self._row_indices
            for draw in draws[metric]
        ]
        # Not kept from call to call: for all steps of a large cell they would fill the memory.
        probabilities = retaining_probabilities(
            self._scores, self._calibration.alpha, self._settings.score_floor
        )
        shape = (len(self._scores), self._width)
        drawn = masks_of(
            self._settings.sampler, *self._key, shape, len(self.grid), self._settings.most_draws
        )

        def draw_mask(row_index: int, draw: int) -> np.ndarray:
            return kept_tokens(drawn, probabilities, row_index, draw)

        # Both metrics read a mask, and equal ones are looked for; those of elements are too large.
        kept_by = cache(draw_mask) if self._width == 1 else draw_mask

        def mask(number: int) -> np.ndarray:
            if number < len(baselines):
                return baselines[number](shape, dtype=bool)
            metric, row_index, draw = keys[number - len(baselines)]
            kept = kept_by(row_index, draw)
            return kept if metric == "ns" else ~kept

        return Perturbations(self.target, len(baselines) + len(keys), mask)

    def record(self, draws: Draws, measured: np.ndarray | None) -> None:
        """Append the measures of :meth:`perturbations` for the same draws, (N, 3).

        None means out of memory, and fails the step.
        """
        if measured is None:
            self.status = TOO_LONG_FOR_MEMORY
            return
        if self._is_new:
            (self.h0, self._identity), measured = measured[:BASELINES, 0], measured[BASELINES:]
        first = 0
        for metric in METRICS:
            last = first + len(self._row_indices) * len(draws[metric])
            shape = (1 + len(self.grid), len(draws[metric]), len(MEASURES))
            new = np.full(shape, np.nan, dtype=np.float32)
            new[self._row_indices] = measured[first:last].reshape(
                len(self._row_indices), -1, len(MEASURES)
            )
            self._measured[metric] = np.concatenate([self._measured[metric], new], axis=1)
            first = last
        if not np.isfinite([self.h0, self._identity]).all():
            self.status = NONFINITE_LOGITS
        elif self.h0 < self._settings.minimum_h0:
            self.status = DEGENERATE_BASELINE

    def curves(self, metric: str) -> np.ndarray:
        """Return the unclamped metric at each π in each draw, (P, K).

        NaN at a π that is not measured.
        """
        distances = self._measured[metric][1:, :, 0].astype(np.float64)
        return (self.h0 - distances if metric == "ns" else distances) / self.h0

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of contract `soft`: one for α = 1 and one for every π."""
        return [self._row(row_index, pi) for row_index, pi in enumerate((None, *self.grid))]

    @property
    def _is_new(self) -> bool:
        return bool(np.isnan(self.h0))

    def _row(self, row_index: int, pi: float | None) -> dict[str, Any]:
        """Return the row of one π; None is for the original metrics.

        The row of a failed step has a status and no numbers; at a π that is not measured, it has
        the calibration only.
        """
        row = {
            "sample_id": self.sample_id,
            "step": self.step,
            "pi": pi,
            "perturbable": len(self.target.perturbable),
            **dict.fromkeys(("alpha", "achieved", "feasible", "floored", "ceiled")),
            "h0": None if np.isnan(self.h0) else float(self.h0),
            "identity": None if np.isnan(self._identity) else float(self._identity),
            **dict.fromkeys(("h0_noise", "ns_noise", "nc_noise")),
            **{f"{metric}_{name}s": None for metric in METRICS for name in MEASURES},
            "status": self.status,
        }
        if self.status != OK:
            return row
        measured = {metric: self._measured[metric][row_index] for metric in METRICS}  # (K, 3)
        finite = all(np.isfinite(values[:, 0]).all() for values in measured.values())
        solved = self._calibration
        row |= {
            "alpha": 1.0 if pi is None else float(solved.alpha[row_index - 1]),
            "achieved": float(self._scores.mean())
            if pi is None
            else float(solved.achieved[row_index - 1]),
            "feasible": True if pi is None else bool(solved.feasible[row_index - 1]),
            "floored": solved.floored,
            "ceiled": solved.ceiled,
        }
        if row_index not in self._row_indices:
            return row
        return {
            **row,
            **self._noise(row_index),
            **{
                f"{metric}_{name}s": values[:, column].tolist()
                for metric, values in measured.items()
                for column, name in enumerate(MEASURES)
            },
            "status": OK if finite else NONFINITE_LOGITS,
        }

    def _noise(self, row_index: int) -> dict[str, float]:
        """Return the differences of H₀ and a row's first draws from their float32 values."""
        again = self._in_float32
        if again is None:
            return {}
        first = (row_index, 0, 0)  # draw and measure: the Hellinger distance
        noise = {
            f"{metric}_noise": float(measured[first]) - float(again._measured[metric][first])
            for metric, measured in self._measured.items()
        }
        return {"h0_noise": float(self.h0) - float(again.h0), **noise}


def measure_draws(perturber: Perturber, steps: Sequence[StepEvaluation], draws: Draws) -> None:
    """Measure draws of all steps that have not failed; a batch may hold masks of several steps.

    Draw indices continue from the draws already measured.
    """
    usable = [step for step in steps if step.status == OK]
    measured = perturber.measure([step.perturbations(draws) for step in usable])
    for step, measures in zip(usable, measured, strict=True):
        step.record(draws, measures)


def measure_in_float32(perturber: Perturber, steps: Sequence[StepEvaluation]) -> None:
    """Repeat one step of a block, chosen by its key, in float32.

    Args:
        perturber: a perturber of its own, because it caches prefixes in float32.
        steps: the steps of one block of samples; failed ones are not chosen.
    """
    usable = [step for step in steps if step.status == OK]
    if usable:
        min(usable, key=StepEvaluation.chance).measure_in_float32(perturber)


def _status_before(attribution: Mapping[str, Any], target: PerturbationTarget) -> str:
    """Return why a step cannot be evaluated, or `ok`."""
    if attribution["status"] != OK:
        return attribution["status"]
    if len(target.perturbable) == 0:
        return NO_CONTENT_TOKENS
    raw = np.asarray(attribution["raw_scores"], dtype=np.float64)[target.perturbable]
    return OK if np.isfinite(raw).all() else NONFINITE_ATTRIBUTION
