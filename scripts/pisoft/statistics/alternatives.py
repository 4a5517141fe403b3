"""Areas under the curve with one choice of the metric changed, from stored draws.

Each alternative changes one choice of the run and keeps all others, including the clamp. H₀ is not
stored as a total variation, so the plain alternatives, by total variation and by Hellinger
distance, are areas under a mean distance, neither divided by H₀ nor clamped, negated for NS so that
higher is better. The plain Hellinger distance shows how much of a change is due to this.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pisoft.config.base import Clamp
from pisoft.config.evaluation import CLAMPS
from pisoft.config.jobs.summaries import SensitivityJob
from pisoft.faithfulness.curves import auc, auc_full
from pisoft.faithfulness.metrics import soft_ns
from pisoft.seeds import keyed_generator
from pisoft.statistics.estimates import FEWEST_FOR_INTERVAL
from pisoft.statistics.samples import Samples
from pisoft.statistics.soft import LOW_PI, metric_of
from pisoft.statistics.soft_files import Steps, completed, read_soft

METRICS = {"ns": "auc_pi_soft_ns", "nc": "auc_pi_soft_nc"}
RUN = "run"  # every choice as in the run
BY_CLAMP: dict[str, Clamp] = {f"clamp_{name}": name for name in CLAMPS}
RATIO_OF_MEANS, MEDIAN, HALF_SAMPLES = "ratio_of_means", "median", "half_samples"
SINGLE_DRAW, HALF_DRAWS = "single_draw", "half_draws"
OTHER_ROUTING = "other_routing"
# Alternatives by the operator that the draws were made with.
OPERATORS = {name: f"operator_{name}" for name in ("zero", "mean", "unknown", "hide")}
PARTS_OF_THE_GRID = (LOW, EVERY_SECOND) = ("low_pi", "every_second_pi")
ALTERNATIVES = {
    "squared_distance": "H² in place of H",
    "plain_distance": "Mean H, not divided by H₀",
    "plain_total_variation": "Mean total variation, not divided",
    "clamp_draw": "Clamped draw by draw",
    "clamp_mean": "Clamped after the mean over draws",
    "clamp_none": "Not clamped",
    RATIO_OF_MEANS: "Ratio of means",
    MEDIAN: "Median over samples",
    "whole_range": "Area over all of [0, 1]",
    LOW: f"Area for π ≤ {LOW_PI}",
    EVERY_SECOND: "Every second π",
    HALF_DRAWS: "Half of the draws",
    SINGLE_DRAW: "A single draw",
    HALF_SAMPLES: "Half of the samples",
    OTHER_ROUTING: "The other routing",
    OPERATORS["zero"]: "Tokens zeroed",
    OPERATORS["mean"]: "Tokens become the mean embedding",
    OPERATORS["unknown"]: "Tokens become the unknown token",
    OPERATORS["hide"]: "Tokens' keys hidden",
}
NEW_DRAWS = (OTHER_ROUTING, *OPERATORS.values())  # need other draws than the run's
FROM_DRAWS = (RUN, *(name for name in ALTERNATIVES if name not in (HALF_SAMPLES, *NEW_DRAWS)))
HALVES = 20  # drawn by key
FEWEST_TO_HALVE = 4  # draws: half of fewer is a single one


class Areas(NamedTuple):
    """The areas of one cell.

    Attributes:
        values: a row per sample of the file, by `sample_id`; a column per metric of
            :data:`METRICS` and of :data:`FROM_DRAWS`; NaN where a sample failed, or there is
            no such alternative. That of the ratio of means is the ratio's numerator.
        h0: the ratio's denominator, mean over each sample's steps.
        draws: number of draws by metric.
        whole: whether each step is measured at every π.
    """

    values: pd.DataFrame
    h0: pd.Series
    draws: dict[str, int]
    whole: bool = True


Methods = Mapping[str, Areas]


def sample_areas(path: Path, minimum_h0: float, clamp: Clamp) -> Areas:
    """Return the areas of one `soft` file, means over the usable steps of each sample.

    Raises:
        BenchmarkError: as :func:`pisoft.statistics.soft_files.read_soft`.
    """
    further = [f"{metric}_total_variations" for metric in METRICS]
    steps = read_soft(path, minimum_h0, further)
    areas = {
        (metric, name): area
        for metric in METRICS
        for name, area in (_areas(metric, steps, clamp) if len(steps.ok) else {}).items()
    }
    columns = pd.MultiIndex.from_product([METRICS, FROM_DRAWS], names=["metric", "alternative"])
    return Areas(
        pd.DataFrame(areas, steps.ok).reindex(steps.status.index, columns=columns),
        pd.Series(steps.mean(steps.h0[:, 0]), steps.ok).reindex(steps.status.index),
        {metric: steps.draws[f"{metric}_distances"].shape[-1] for metric in METRICS},
        bool(steps.measured.all()),
    )


def alternatives_of(metric: str, clamp: Clamp, new_draws: Container[str]) -> list[str]:
    """Return the alternatives to a run's choices, including available new draws.

    Other clamps are alternatives for π-Soft-NS only.
    """
    return [
        name
        for name in ALTERNATIVES
        if (name not in BY_CLAMP or (metric == "ns" and BY_CLAMP[name] != clamp))
        and (name not in NEW_DRAWS or name in new_draws)
    ]


def alternative_samples(
    metric: str,
    dataset: str,
    methods: Methods,
    new_draws: Mapping[str, Methods],
    settings: SensitivityJob,
    clusters: Mapping[str, str],
) -> tuple[Samples, dict[str, str]]:
    """Return the areas of a dataset by metric, alternative, half and method, and reasons for gaps.

    `methods` are areas from the run's draws, `new_draws` areas from other draws by alternative.
    Only the alternative "half of the samples" has several halves, keyed by the dataset's name;
    samples left out have no value. Reasons are by alternative.
    """
    areas = pd.concat({name: cell.values[metric] for name, cell in methods.items()}, axis=1)
    h0 = pd.DataFrame({name: cell.h0 for name, cell in methods.items()}, areas.index)
    by_alternative = areas.swaplevel(axis=1)
    run = by_alternative[RUN]
    parts = {(metric, name, 0): by_alternative[name] for name in FROM_DRAWS}
    for name, redrawn in new_draws.items():
        method_areas = {method: cell.values[metric, RUN] for method, cell in redrawn.items()}
        parts[metric, name, 0] = pd.DataFrame(method_areas, run.index).reindex(columns=run.columns)
    with_value = np.flatnonzero(run.notna().any(axis=1))
    for half in range(HALVES):
        generator = keyed_generator(settings.seed, "half of the samples", dataset, half)
        left_out = generator.permutation(with_value)[with_value.size // 2 :]
        parts[metric, HALF_SAMPLES, half] = run.copy()
        parts[metric, HALF_SAMPLES, half].iloc[left_out] = np.nan
    draws = max(cell.draws[metric] for cell in methods.values())
    missing = _missing(draws, with_value.size, settings.clamp)
    if not all(cell.whole for cell in methods.values()):
        missing[MEDIAN] = "a step is measured at some retaining probabilities only"
    denominators = {
        key: h0 if RATIO_OF_MEANS in key else part.notna() for key, part in parts.items()
    }
    levels = ["metric", "alternative", "half", "method"]
    top, bottom = (
        pd.concat(frames, axis=1, names=levels).astype(float) for frames in (parts, denominators)
    )
    top.loc[:, top.columns.isin(list(missing), level="alternative")] = np.nan
    medians = top.columns.get_level_values("alternative") == MEDIAN
    return Samples(top, bottom, top.isna().sum(), medians, clusters), missing


def _areas(metric: str, steps: Steps, clamp: Clamp) -> dict[str, np.ndarray]:
    """Return the areas of all samples by alternative, (S,) each."""
    h0, grid = steps.h0, steps.grid
    distances = steps.draws[f"{metric}_distances"][:, 1:]  # (G, P, K)
    total_variations = steps.draws[f"{metric}_total_variations"][:, 1:]
    half = max(1, distances.shape[-1] // 2)
    sign = -1 if metric == "ns" else 1  # of a distance, so that higher is better
    curve = metric_of(metric, h0, distances, clamp)
    curves = {
        RUN: curve,
        MEDIAN: curve,
        RATIO_OF_MEANS: curve * h0,
        "squared_distance": metric_of(metric, h0**2, distances**2, clamp),
        "plain_distance": sign * distances.mean(axis=-1),
        "plain_total_variation": sign * total_variations.mean(axis=-1),
        SINGLE_DRAW: metric_of(metric, h0, distances[..., :1], clamp),
        HALF_DRAWS: metric_of(metric, h0, distances[..., :half], clamp),
    }
    if metric == "ns":
        curves |= {name: soft_ns(h0, distances, other) for name, other in BY_CLAMP.items()}
    curves = {name: completed(steps.where_measured(curve), grid) for name, curve in curves.items()}
    areas = {name: auc(grid, sample_curves) for name, sample_curves in curves.items()}
    areas["whole_range"] = auc_full(grid, curves[RUN], f"pi_soft_{metric}")
    parts = {LOW: grid <= LOW_PI, EVERY_SECOND: np.arange(grid.size) % 2 == 0}
    for name, part in parts.items():
        if part.sum() > 1:
            areas[name] = auc(grid[part], curves[RUN][:, part])
    return areas


def _missing(draws: int, samples: int, clamp: Clamp) -> dict[str, str]:
    """Return the alternatives without a value and the reason: too few draws or samples."""
    reasons = {}
    if draws < 2:
        clamps = BY_CLAMP.keys() - {"clamp_none"} if clamp != "none" else ()
        # Clamping the only draw is clamping the mean.
        reasons = dict.fromkeys([SINGLE_DRAW, *clamps], "a single draw is stored")
    if draws < FEWEST_TO_HALVE:
        reasons[HALF_DRAWS] = f"fewer than {FEWEST_TO_HALVE} draws are stored"
    if samples < FEWEST_FOR_INTERVAL:
        reasons[HALF_SAMPLES] = "fewer than two samples have a value"
    return reasons
