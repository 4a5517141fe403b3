"""Mask regression, ContextCite: a sparse linear model of the target under random masks."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pisoft.attribution.masking import SamplingMethod, SamplingOptions, all_masks
from pisoft.config.base import AttributedFunction


class MaskRegressionOptions(SamplingOptions):
    """Options of mask regression; the defaults are ContextCite's, except `unit` and `forwards`."""

    attributed_function: AttributedFunction = Field(
        "log_odds",
        description="The function of the target token that is explained: its probability p, its "
        "logit, or its `log_odds`, log p/(1 − p).",
    )
    alpha: float = Field(
        0.01,
        ge=0,
        description="Weight of the Lasso's penalty, in units of the explained function; 0: least "
        "squares.",
    )


class MaskRegression(SamplingMethod):
    """Weights of a Lasso of the target's log-odds on the presence of units.

    Each mask keeps each unit with probability ½. The Lasso is fitted to standardised masks; its
    weights are rescaled to predict the change when a unit is removed. If `forwards` allows, all 2^m
    masks replace the random ones; without a penalty, the weights are then the Banzhaf values.
    """

    label = "Mask regression"
    reference = "Cohen-Wang et al. (2024), ContextCite: attributing model generation to context"

    Options = MaskRegressionOptions
    options: MaskRegressionOptions

    def fewest(self, units: int) -> int:
        """Return the fewest masks; a sparse model needs fewer than it has units."""
        return 2

    def sampled(self, generator: np.random.Generator, units: int, forwards: int) -> np.ndarray:
        """Return masks that keep each unit with probability ½, (N, m)."""
        if forwards >= 2**units:
            return all_masks(units)
        return generator.random((forwards, units)) < 0.5

    def unit_scores(self, masks: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the weights of a linear model with intercept, (m, S)."""
        from sklearn.linear_model import Lasso

        centred = masks - masks.mean(axis=0)
        scale = centred.std(axis=0)
        scale[scale == 0] = 1  # a unit whose presence never varies has weight 0
        standardised = centred / scale
        targets = values - values.mean(axis=0)
        if self.options.alpha == 0:
            weights = np.linalg.lstsq(standardised, targets, rcond=None)[0]
        else:
            lasso = Lasso(alpha=self.options.alpha, fit_intercept=False, tol=1e-10, max_iter=10**5)
            weights = np.full((masks.shape[1], targets.shape[1]), np.nan)
            for step in np.flatnonzero(np.isfinite(targets).all(axis=0)):
                weights[:, step] = lasso.fit(standardised, targets[:, step]).coef_
        return weights / scale[:, None]
