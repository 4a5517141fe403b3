"""The best number of retaining probabilities to measure per step, from stored evaluations.

The contribution of a record to the mean area under the curve has a variance σ_b² between records,
and about σ_w²/k from measuring k of P retaining probabilities. If a record costs c and each
retaining probability d, n records cost n (c + k d), and k = σ_w/σ_b · √(c/d) gives the narrowest
interval at equal cost (Cochran 1977, Sampling Techniques, section 10.6). Since curves are smooth
and the k spread over the grid, variances are not taken from that formula but computed for the
systematic samples themselves, from second moments of the stored values.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pisoft.config.evaluation import EvaluationSettings
from pisoft.faithfulness.masks import systematic_pi
from pisoft.statistics.soft import METRICS, metric_of
from pisoft.statistics.soft_files import read_soft

FEWEST_RECORDS = 3  # of an evaluation that counts
MOST_FILES = 50  # that are read for the advice, evenly chosen


def variances(curves: np.ndarray, sample: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return the variance of a record's part in the mean area for 1, 2, …, P π per step, (P,).

    Divided by the number of records, it is the variance of the mean. Two π never measured together
    take the mean moment of the others; NaN if no step has two measured π.

    Args:
        curves: the metric of each step, (G, P); NaN where not measured.
        sample: index of each step's record, (G,).
        grid: retaining probabilities, (P,).
    """
    measured, size = np.isfinite(curves), grid.size
    steps = np.bincount(sample)[sample][:, None]  # of each step's record
    weights = measured / steps
    filled = np.where(measured, curves, 0.0)
    means = (weights * filled).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
    area = np.trapezoid(np.eye(size), grid, axis=0)
    parts = np.where(measured, filled - means, 0.0) * area / steps  # (G, P)
    together = measured.T.astype(float) @ measured  # steps measured at both π, (P, P)
    products, pairs = parts.T @ parts, ~np.eye(size, dtype=bool) & (together > 0)
    other = products[pairs].sum() / together[pairs].sum() if pairs.any() else np.nan
    moments = len(curves) * np.where(together > 0, products / np.maximum(together, 1), other)
    within_steps = [_systematic_mean(moments, count) * size**2 for count in range(1, size + 1)]
    whole = size * parts.sum(axis=1) / measured.sum(axis=1)  # (G,)
    between_steps = (np.bincount(sample, whole) ** 2).sum() - (whole**2).sum()
    return (np.array(within_steps) + between_steps) / (len(np.unique(sample)) - 1)


def _systematic_mean(moments: np.ndarray, count: int) -> float:
    """Return the mean of moments (P, P) over pairs of a systematic sample, over all its starts."""
    size = len(moments)
    samples = (systematic_pi(size, count, (start + 0.5) / size) for start in range(size))
    return float(np.mean([moments[np.ix_(chosen, chosen)].mean() for chosen in samples]))


def best_number(
    paths: Iterable[Path], settings: EvaluationSettings, costs: np.ndarray
) -> tuple[int, np.ndarray, int]:
    """Return the number of π per step with the narrowest intervals at equal cost.

    Args:
        paths: `soft` files; files with another grid or fewer than three records are ignored.
        settings: settings of the run, which give the number of draws to use.
        costs: cost of a record with 1, 2, …, P retaining probabilities, in any unit, (P,).

    Returns:
        The number, 0 if there is no usable file; relative widths of intervals at equal cost, (P,),
        from the mean variance over files and both metrics; and the number of usable files.
    """
    relative, files = [], 0
    for path in paths:
        steps = read_soft(path, settings.minimum_h0)
        if not np.array_equal(steps.grid, settings.pi_grid) or len(steps.ok) < FEWEST_RECORDS:
            continue
        metric_variances = [
            variances(metric_of(metric, steps.h0, draws, settings.clamp), steps.sample, steps.grid)
            for metric in METRICS
            for draws in [steps.draws[f"{metric}_distances"][:, 1:, : settings.most_draws]]
        ]
        stored = int(steps.measured[0, 1:].sum())
        usable = [one / one[stored - 1] for one in metric_variances if one[stored - 1] > 0]
        usable = [one for one in usable if np.isfinite(one).all()]
        relative += usable
        files += bool(usable)
    if not relative:
        return 0, np.full(costs.shape, np.nan), 0
    widths = np.sqrt(np.maximum(np.mean(relative, axis=0), 0) * costs)
    return 1 + int(np.argmin(widths)), widths, files


def advice(folder: Path, settings: EvaluationSettings, costs: np.ndarray) -> str:
    """Return a sentence on the best `pi_per_step` of a run, from the `soft` files in a folder.

    It is empty for a run that measures every π and has no such files yet.
    """
    chosen, size = settings.pi_per_step, len(settings.pi_grid)
    paths = sorted(folder.rglob("*.parquet"))
    number, widths, files = best_number(paths[:: 1 + len(paths) // MOST_FILES], settings, costs)
    if not number and chosen is None:
        return ""
    if not number:
        return (
            "pi_per_step: evaluate a few records, best at all π (preset: efficient, max_samples: "
            "20); the plan will then say which number suits these records best."
        )
    alternatives = {str(chosen): chosen or 0, f"all {size}": size}
    compared = ", ".join(
        f"{widths[number - 1] / widths[other - 1]:.2f} × those of {name}"
        for name, other in alternatives.items()
        if other
    )
    return (
        f"pi_per_step: {number} gives the narrowest intervals at equal cost, attribution included: "
        f"{compared} (from {files} stored evaluations)."
    )
