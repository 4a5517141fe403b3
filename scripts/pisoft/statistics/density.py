"""Whether the π-Soft metrics reward dense scores (paper, app:attribution-distribution).

The paper says that "density alone does not explain faithfulness performance: Random produces the
most uniform attribution distribution but performs poorly". The density of one step's normalised
scores s, over its m perturbable tokens in rising order (i = 1 … m), is measured by

- mean_score = Σ s_i / m, the share of tokens that the original metrics keep; 1 is densest;
- gini = Σ (2 i − m − 1) s_i / (m Σ s_i), the Gini index: 0 if all scores are equal, 1 − 1 / m if a
  single token has the whole sum, 1 / 3 for uniformly distributed scores.

The value of a sample is the mean over its evaluated steps. Spearman's ρ between density and metric
is computed within each sample, over the methods with both (at least three), so that the sample's
difficulty cancels. The mean ρ is tested against 0, with and without random scores. P-values are
corrected over all tests of a metric. With `pi_per_step`, single samples have no areas to correlate.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from pisoft.config.jobs.summaries import DensityJob
from pisoft.statistics.estimates import estimate_cells
from pisoft.statistics.metrics import AUC_METRICS, CONTROL, DECIMALS
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.scores import StepScores, read_methods, scores_by_sample

MEASURES = ("mean_score", "gini")
ORIGINAL = ("soft_ns", "soft_nc")
FEWEST = 3  # methods of a correlation
ALL, WITHOUT_CONTROL = "all", "without random"  # methods that are correlated
FAMILY = ["protocol", "metric"]


def summaries(files: Files, settings: DensityJob) -> dict[str, Summary]:
    """Return the densities of one model and their correlations with the metrics."""
    model = files["prompts"][0].parent.name
    by_method: dict[str, dict[str, pd.DataFrame]] = {}
    for _, method, dataset, steps in read_methods(files, settings):
        by_method.setdefault(dataset, {})[method] = densities(steps, method)
    metrics = [*(AUC_METRICS if settings.pi_per_step is None else ()), *ORIGINAL]
    areas = files.rows("soft_samples", model=model)
    areas = areas[areas["metric"].isin(metrics)].set_index(["dataset", "sample_id"])
    density = {
        (model, dataset): pd.concat(frames, axis="columns", names=["method", "metric"])
        for dataset, frames in by_method.items()
    }
    correlations = {cell: correlate(rows, areas.loc[cell[1]]) for cell, rows in density.items()}
    drawn, tested = (settings, files.clusters(), ["model"]), (ALL, WITHOUT_CONTROL)
    return {
        "density": estimate_cells(density, *drawn),
        "density_correlations": estimate_cells(correlations, *drawn, tested, FAMILY),
    }


def gini(scores: np.ndarray) -> float:
    """Return the Gini index of scores (m,) ≥ 0; 0 where all are 0."""
    m, total = scores.size, scores.sum()
    if total == 0:
        return 0.0
    return float((2 * np.arange(1, m + 1) - m - 1) @ np.sort(scores) / (m * total))


def densities(steps: Iterable[StepScores], method: str) -> pd.DataFrame:
    """Return a row per sample and a column per measure; NaN: no scores."""
    rows = {
        sample_id: pd.DataFrame([(s.mean(), gini(s)) for s in scores], columns=MEASURES).mean()
        for sample_id, scores in scores_by_sample(steps, method)
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def correlate(density: pd.DataFrame, areas: pd.DataFrame) -> pd.DataFrame:
    """Return ρ by sample, and by protocol, metric, measure (`other`) and part, such as :data:`ALL`.

    `density` has samples by (method, metric); `areas` is indexed by sample, with columns
    `protocol`, `metric`, `method` and `value`.
    """
    methods = density.columns.unique("method")
    parts = {ALL: methods} if CONTROL in methods else {}
    parts[WITHOUT_CONTROL] = methods.drop(CONTROL, errors="ignore")
    correlations = {}
    for (protocol, metric), rows in areas.groupby(FAMILY, sort=False):
        values = rows.pivot(columns="method", values="value").reindex(density.index)
        for measure, (part, among) in product(MEASURES, parts.items()):
            densities = density.xs(measure, axis="columns", level="metric")
            pair = (
                frame.reindex(columns=among).round(DECIMALS).to_numpy()
                for frame in (densities, values)
            )
            correlations[protocol, metric, measure, part] = rank_correlations(*pair)
    frame = pd.DataFrame(correlations, density.index)
    return frame.rename_axis(columns=[*FAMILY, "other", "part"])


def rank_correlations(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return Spearman's ρ of each row of two matrices (N, M), (N,), over columns with both numbers.

    Ties share their mean rank; NaN for fewer than three columns or a constant row.
    """
    common = np.isfinite(one) & np.isfinite(other)
    enough = common.sum(axis=1) >= FEWEST
    rho = np.full(len(one), np.nan)
    for row in np.flatnonzero(enough):
        ranks = [rankdata(values[row, common[row]]) for values in (one, other)]
        if all(np.ptp(values) for values in ranks):
            rho[row] = np.corrcoef(ranks)[0, 1]
    return rho
