"""Scores of one prompt: as a heatmap in notebooks, and calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from pisoft.api.prompts import Prompt
from pisoft.config.base import Normalisation
from pisoft.config.evaluation import EvaluationSettings
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError, in_one_line
from pisoft.faithfulness import calibration
from pisoft.faithfulness.scores import normalise

HEAT = "213, 94, 0"  # RGB of the highest score


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """Raw scores of a prompt's tokens for one explained token.

    Attributes:
        prompt: row of contract `prompts`.
        answer: row of contract `generations`: the explained token and those before it.
        values: (prompt tokens,), float32; also `numpy.asarray(scores)`.
    """

    prompt: Prompt
    answer: dict[str, Any]
    values: np.ndarray

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Scores({len(self)} tokens, explained token {self.answer['target_ids'][0]})"

    @property
    def content(self) -> np.ndarray:
        """Raw scores of the tokens that perturbations may touch, (m,)."""
        return self.values[np.asarray(self.prompt["content_mask"])]

    def _repr_html_(self) -> str:
        """Return the prompt as HTML, its content coloured by score; the lowest is white."""
        shades = np.zeros(len(self))
        if np.isfinite(self.content).all():
            shades[np.asarray(self.prompt["content_mask"])] = normalise(self.content, "minmax")
        tokens = zip(self.prompt["token_texts"], self.values, shades, strict=True)
        spans = [
            f'<bdi title="{value:.4g}" style="background:rgba({HEAT}, {shade:.2f})">'
            f"{escape(text).replace(chr(10), '↵' + chr(10))}</bdi>"
            for text, value, shade in tokens
        ]
        # No notebook may take dollar signs for formulas; black on white also in dark mode.
        return (
            '<div class="tex2jax_ignore mathjax_ignore" style="white-space:pre-wrap;'
            f'background:#fff;color:#000;padding:.5em">{"".join(spans)}</div>'
        )


def as_array(scores: Any, where: str, dtype: type[np.floating]) -> np.ndarray:
    """Return scores, or a tensor of any dtype and device, as an array."""
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu().double()
    try:
        return np.asarray(scores, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise BenchmarkError(f"{where}: must be numbers, got {scores!r}") from error


@in_one_line
def calibrate(
    scores: Scores | ArrayLike, pi: float, *, normalisation: Normalisation = "minmax"
) -> tuple[float, np.ndarray]:
    """Return the power α that calibrates scores, and each token's retaining probability, (m,).

    The probabilities are scores in [0, 1] to the power α; their mean is π.

    Args:
        scores: scores of a prompt, whose content is used; or raw scores of perturbable tokens,
            (m,).
        pi: target retaining probability, in (0, 1).
        normalisation: how raw scores become scores in [0, 1].

    Raises:
        BenchmarkError: π outside (0, 1), or scores that are not finite numbers.
    """
    if not isinstance(pi, int | float | np.floating):
        raise BenchmarkError(f"pi: must be a number in (0, 1), got {pi!r}")
    if not 0 < pi < 1:
        raise BenchmarkError(f"pi: {pi} is not allowed; it must be in (0, 1)")
    raw = as_array(scores.content if isinstance(scores, Scores) else scores, "scores", np.float64)
    if raw.ndim != 1 or raw.size == 0 or not np.isfinite(raw).all():
        raise BenchmarkError(
            f"scores: must be finite, at least one, and in one dimension; got shape {raw.shape}"
        )
    settings = validate(EvaluationSettings, {"normalisation": normalisation}, "calibrate")
    floor = settings.score_floor
    normalised = normalise(raw, settings.normalisation)
    (alpha,) = calibration.calibrate(normalised, np.array([pi]), floor).alpha
    return float(alpha), calibration.clip_scores(normalised, floor) ** alpha
