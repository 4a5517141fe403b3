"""The advantage of each method over random scores by π (paper, paragraph 'Insights').

The paper says that methods "only show advantage over Random attributions for larger retaining
probability π > 0.5". f(π) is a sample's π-Soft-NS or π-Soft-NC minus that of random scores with the
same random numbers. Its mean over samples is reported

- at every π of the grid (`at`);
- over the halves π ≤ 0.5 and π ≥ 0.5 (`lower`, `upper`): the trapezoid area of f over that part of
  the grid's span divided by the part's width, with f(0.5) interpolated if the grid lacks it;
- `upper_minus_lower`, the second minus the first.

The halves and their difference are tested against 0. P-values are corrected over all these tests of
a metric, because a reader picks among the methods.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.statistics.estimates import estimate_cells
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.soft import DATASET, curve_matrix
from pisoft.statistics.soft_files import completed

MIDDLE = 0.5
HALVES = ("lower", "upper", "upper_minus_lower")
AT = "at"


def summaries(files: Files, settings: ResamplingJob) -> dict[str, Summary]:
    """Return one file of advantages; without random scores it is empty."""
    grid = np.unique(files.rows("curves")["position"])
    cells = {
        cell: _differences(rows, grid)
        for cell, rows in files.rows("soft_sample_curves").groupby(DATASET, sort=False)
        if {CONTROL} < set(rows["method"])
    }
    failed = {cell: _failures(rows) for cell, rows in cells.items()}
    rows = estimate_cells(cells, settings, files.clusters(), tested=HALVES, failed=failed)
    return {"advantage": rows}


def half_weights(grid: np.ndarray) -> np.ndarray:
    """Return the weights (halves, P) that turn the values of a curve into its mean heights.

    Rows follow :data:`HALVES`; a grid on one side of 0.5 only has none.
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


def _differences(curves: pd.DataFrame, grid: np.ndarray) -> pd.DataFrame:
    """Return the difference to random scores, samples by part, π, metric and method.

    `curves` are `soft_sample_curves` of one dataset.
    """
    names = ["part", "position", "metric", "method"]
    index = pd.MultiIndex.from_frame(curves[["sample_id", *names[2:]]])
    values = pd.DataFrame(curve_matrix(curves, grid.size), index, grid)
    control, weights = values.xs(CONTROL, level="method"), half_weights(grid)
    parts: dict[tuple[object, ...], pd.Series] = {}
    for (metric, method), method_values in values.groupby(level=names[2:], sort=False):
        if method != CONTROL:
            points = method_values.droplevel(names[2:]) - control.xs(metric, level="metric")
            usable = points.dropna(how="all")
            halves = completed(usable.to_numpy(), grid) @ weights.T
            parts |= {(AT, pi, metric, method): pi_values for pi, pi_values in points.items()}
            parts |= {
                (part, "", metric, method): pd.Series(part_values, usable.index)
                for part, part_values in zip(HALVES, halves.T, strict=False)
            }
    frame = pd.DataFrame(parts).reindex(curves["sample_id"].unique())
    return frame.rename_axis(columns=names)


def _failures(differences: pd.DataFrame) -> pd.Series:
    """Return the number of failed samples by column; all others are measured at some π."""
    method_values = differences[AT].isna().T.groupby(level=["metric", "method"]).all().sum(axis=1)
    columns = differences.columns
    return method_values.reindex(columns.droplevel(["part", "position"])).set_axis(columns)
