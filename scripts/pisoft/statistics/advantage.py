"""The advantage of each method over random scores by π (paper, paragraph 'Insights').

The paper says that methods "only show advantage over Random attributions for larger retaining
probability π > 0.5". f(π) is a sample's π-Soft-NS or π-Soft-NC less that of random scores under the
same random numbers. Its mean over samples is reported

- at every π of the grid (`at`);
- over the halves π ≤ 0.5 and π ≥ 0.5 (`lower`, `upper`): the trapezoid area of f over that part of
  the grid's span divided by the part's width, with f(0.5) interpolated if the grid lacks it;
- `upper_minus_lower`, the second less the first.

The halves and their difference are tested against 0. P-values are corrected over all these tests of
a metric, as a reader picks among the methods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.statistics.estimates import estimate_cells
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.samples import sample_matrix
from pisoft.statistics.soft import DATASET, rarely_measured

MIDDLE = 0.5
HALVES = ("lower", "upper", "upper_minus_lower")
AT = "at"
Settings = ResamplingJob


def summaries(files: Files, settings: ResamplingJob) -> dict[str, Summary]:
    """Return one file of advantages; without random scores it is empty."""
    means = files.rows("curves")
    grid, few = np.unique(means["position"]), rarely_measured(means)
    curves = files.rows("soft_sample_curves")
    weights = {(AT, pi): weight for pi, weight in zip(grid, np.eye(grid.size), strict=True)}
    halves = zip(HALVES, half_weights(grid), strict=False)
    weights |= {(part, ""): weight for part, weight in halves}
    cells = {
        cell: _differences(rows, weights, few.get(cell, ()))
        for cell, rows in curves.groupby(DATASET, sort=False)
        if {CONTROL} < set(rows["method"])
    }
    return {"advantage": estimate_cells(cells, settings, files.clusters(), tested=HALVES)}


def half_weights(grid: np.ndarray) -> np.ndarray:
    """Return the weights that make a curve's values into its mean heights, (halves, P).

    The lines are those of :data:`HALVES`; a grid that does not reach to both sides of 0.5 has none.
    """
    if not grid.size or not grid[0] < MIDDLE < grid[-1]:
        return np.empty((0, grid.size))
    knots = np.union1d(grid, MIDDLE)
    at_knots = np.stack([np.interp(knots, grid, one) for one in np.eye(grid.size)])  # (P, knots)
    heights = [
        np.trapezoid(at_knots[:, part], knots[part]) / np.ptp(knots[part])
        for part in (knots <= MIDDLE, knots >= MIDDLE)
    ]
    return np.stack([*heights, heights[1] - heights[0]])


def _differences(
    curves: pd.DataFrame,
    weights: Mapping[tuple[str, float | str], np.ndarray],
    few: Collection[float],
) -> pd.DataFrame:
    """Return method less random scores, samples by part, π, metric and method.

    `curves` are `soft_sample_curves` of one dataset, `weights` (P,) are by part and π. Those at a
    single π of :func:`rarely_measured`, the `few`, have no values.
    """
    lacking = np.full(next(iter(weights.values())).size, np.nan)
    values = np.stack([lacking if curve is None else curve for curve in curves["values"]])
    parts = {}
    for key, weight in weights.items():
        scores = sample_matrix(curves.assign(value=values @ weight), ["metric", "method"])
        control = scores.xs(CONTROL, axis="columns", level="method")
        methods = scores.drop(columns=CONTROL, level="method")
        parts[key] = methods - control[methods.columns.get_level_values("metric")].to_numpy()
        if key[1] in few:
            parts[key][:] = np.nan
    return pd.concat(parts, axis="columns", names=["part", "position"])
