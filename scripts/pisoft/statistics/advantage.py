"""The advantage of each method over random scores by π (paper, paragraph 'Insights').

The paper says that methods "only show advantage over Random attributions for larger retaining
probability π > 0.5". Of one sample, f(π) is the method's π-Soft-NS or π-Soft-NC less that of random
scores, which saw the same random numbers. Its mean over samples is reported

- at every π of the grid (`at`);
- over the half π ≤ 0.5 and the half π ≥ 0.5 (`lower`, `upper`): the trapezoid area of f over that
  part of the grid's span, divided by the part's width, so that it is f's mean height there; at 0.5,
  f is interpolated if the grid leaves it out;
- `upper_minus_lower`, the second less the first.

The halves and their difference are tested against 0. P-values are corrected over all these tests of
a metric, as a reader picks among the methods.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from pisoft.columns import SCHEMAS
from pisoft.config.slices.summaries import ResamplingSlice
from pisoft.statistics.means import mean_rows, sign_flip_rows, with_tests
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.soft import CURVE_METRICS

MIDDLE = 0.5
HALVES = ("lower", "upper", "upper_minus_lower")
AT = "at"
FAMILY = ["metric"]
Settings = ResamplingSlice


def summaries(files: Files, settings: ResamplingSlice) -> dict[str, Summary]:
    """Return one file of advantages; without random scores it is empty."""
    schema = SCHEMAS["advantage"]
    tables = [schema.empty_table()]
    grid = np.unique(files.rows("soft_curves")["pi"])
    curves = files.rows("soft_sample_curves")
    for (protocol, model), own in curves.groupby(["protocol", "model"], sort=False):
        if {CONTROL} < set(own["method"]):
            rows = advantages(own, grid, settings.seed, settings.resamples)
            rows = rows.assign(protocol=protocol, model=model)[schema.names]
            tables.append(pa.Table.from_pandas(rows, schema=schema, preserve_index=False))
    return {"advantage": pa.concat_tables(tables).replace_schema_metadata(None)}


def advantages(curves: pd.DataFrame, grid: np.ndarray, seed: int, resamples: int) -> pd.DataFrame:
    """Return `advantage` rows of one protocol and model, but for these two columns.

    Args:
        curves: `soft_sample_curves` rows, random scores among the methods.
        grid: retaining probabilities, (P,).
        seed: of the run.
        resamples: bootstrap resamples, and sign flips of a test.
    """
    by_dataset = curves.groupby("dataset", sort=False)
    points = {str(name): _differences(own, grid) for name, own in by_dataset}
    halves = {name: _halves(of_points, grid) for name, of_points in points.items()}
    both = {name: pd.concat([points[name], halves[name]], axis="columns") for name in points}
    tests = sign_flip_rows(halves, seed, resamples, FAMILY).drop(columns="pi")
    means = mean_rows(both, seed, resamples)
    of_halves = means["part"] != AT
    tested = with_tests(means[of_halves], tests)
    return pd.concat([means[~of_halves], tested], ignore_index=True)


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


def _differences(curves: pd.DataFrame, grid: np.ndarray) -> pd.DataFrame:
    """Return method less random scores at every π, a row per sample of the dataset."""
    by_method = {
        method: _by_sample(own, grid) for method, own in curves.groupby("method", sort=False)
    }
    control = by_method.pop(CONTROL)
    frames = {(method, AT): own - control for method, own in by_method.items()}
    found = pd.concat(frames, axis="columns", names=["method", "part"])
    return found.reorder_levels(["metric", "method", "part", "pi"], axis="columns")


def _by_sample(curves: pd.DataFrame, grid: np.ndarray) -> pd.DataFrame:
    """Return a row per sample and a column per metric and π; NaN where a sample failed."""
    lacking = np.full(grid.size, np.nan)
    values = [lacking if own is None else own for own in curves["values"]]
    table = pd.DataFrame(np.stack(values), columns=grid).assign(
        sample_id=curves["sample_id"].to_numpy(), metric=curves["metric"].to_numpy()
    )
    wide = table.pivot(index="sample_id", columns="metric").swaplevel(axis="columns")
    wanted = pd.MultiIndex.from_product([CURVE_METRICS, grid], names=["metric", "pi"])
    return wide.reindex(index=table["sample_id"].unique(), columns=wanted)


def _halves(differences: pd.DataFrame, grid: np.ndarray) -> pd.DataFrame:
    """Return mean heights over the halves, columns as those of the differences."""
    weights = half_weights(grid)
    curves = differences.to_numpy().reshape(len(differences), -1, grid.size)
    columns = [
        (metric, method, part, np.nan)
        for metric, method, *_ in differences.columns[:: grid.size]
        for part in HALVES[: len(weights)]
    ]
    return pd.DataFrame(
        (curves @ weights.T).reshape(len(differences), -1),
        index=differences.index,
        columns=pd.MultiIndex.from_tuples(columns, names=differences.columns.names),
    )
