"""Scores of every method from the stored draws of a run, without a further forward pass.

Each draw of the soft metrics keeps some tokens, zeroes the others, and stores the change of the
target's log-probability, Δ = log p(perturbed) − log p(clean). All methods are evaluated on the N
draws of *random* scores, whose masks favour no method: Soft-NS and Soft-NC, every π and α = 1.
Masks are regenerated from their keys.

With masks e (1: kept) and a method's scores s of one step, the kept mass of a mask is Σ e_i s_i,
the removed mass Σ (1 − e_i) s_i, and the drop −Δ. Over the N masks:

- lds: Spearman's ρ of kept mass and Δ, the linear datamodeling score (Ilyas et al. 2022, Park et
  al. 2023), here of tokens;
- lds_given_count: its partial correlation given the number of kept tokens. Across many π, this
  number alone explains much of Δ, so even equal scores have a high lds;
- faithfulness_correlation: Pearson's r of removed mass and drop (Bhatt et al. 2020);
- infidelity: min over β of the mean of (β · removed mass − drop)², divided by the mean of drop²
  (Yeh et al. 2019, with the optimal scale), from 0, the best, to 1.

A metric is undefined for a step whose scores explain another token than the random scores do, with
fewer than three masks, or if either variable is constant. The value of a sample is the mean over
its steps with a value.

Random scores are not a fair control here, because they drew the masks: at any count, their kept
mass is high with Soft-NS and low with Soft-NC. Their LDS is lower than that of other random scores;
given the count, it is 0 on average but varies more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from pisoft.config.jobs.summaries import DatamodelJob
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.calibration import retaining_probabilities
from pisoft.faithfulness.masks import kept_tokens, masks_of
from pisoft.statistics.metrics import CONTROL
from pisoft.statistics.reading import REPAIR, Files, Summary
from pisoft.statistics.scores import StepScores, read_scores, steps_by_sample
from pisoft.statistics.soft_files import Steps, whole_steps
from pisoft.store.parquet import (
    CONSTANT_CHANGES,
    CONSTANT_SCORES,
    NONFINITE_LOGITS,
    OK,
    OTHER_TARGET,
    TOO_FEW_MASKS,
    read_table,
)
from pisoft.store.schemas import FILES

CHANGES = ["ns_log_probability_changes", "nc_log_probability_changes"]
METRICS = ("lds", "lds_given_count", "faithfulness_correlation", "infidelity")
FEWEST_MASKS = 3
# Masses are rounded to so many decimals. Masks of equal mass are ties then, in whichever order a
# matrix product has added them up, which depends on the machine and on the methods beside.
DECIMALS = 9
NOTHING_LEFT = 1e-12  # share of the ranks' variation; less is rounding
SAME_MEAN = 1e-9  # as calibration promises


def summaries(files: Files, settings: DatamodelJob) -> dict[str, Summary]:
    """Return one file of samples, from prompts, all scores, and `soft` files of random scores."""
    frames = []
    for path in files["prompts"]:
        cell = (path.parts[-2], path.stem)
        attributions, soft = (
            [file for file in files[kind] if (file.parts[-3], file.stem) == cell]
            for kind in ("attributions", "soft")
        )
        frames += _cell_samples(path, attributions, soft, settings)
    return {"datamodel_samples": frames}


def _cell_samples(
    prompts: Path, attributions: Sequence[Path], soft: Sequence[Path], settings: DatamodelJob
) -> list[pd.DataFrame]:
    """Return the rows of one model and dataset, by protocol and method."""
    methods = [path.parts[-2] for path in attributions]
    draws = {path: read_draws(path, settings.pi_grid) for path in soft}
    samples = dict(steps_by_sample(read_scores(prompts, attributions, settings)))
    names = ["method", "sample_id", "metric"]
    index = pd.MultiIndex.from_product([methods, samples, METRICS], names=names)
    frames = []
    for path in soft:
        numbers = [
            _sample([_step(step, methods, path, draws[path], settings) for step in steps])
            for steps in samples.values()
        ]
        columns = {
            name: np.reshape([sample[part] for sample in numbers], (-1, len(methods))).T.ravel()
            for part, name in enumerate(("value", "status"))
        }
        cell = FILES["soft"].cell(path).keys | {"method": index.get_level_values("method")}
        frames.append(pd.DataFrame(columns, index).reset_index(names[1:]).assign(**cell))
    return frames


def read_draws(path: Path, grid: Sequence[float]) -> Steps:
    """Read the log-probability changes of a `soft` file.

    Raises:
        BenchmarkError: an unreadable file, or a step that lacks a retaining probability or a draw.
    """
    numbers = ["alpha", "achieved"]
    table = read_table(path, "soft", ["sample_id", "step", "pi", "status", *numbers, *CHANGES])
    rows, changes = table.drop_columns(CHANGES).to_pandas(), table.select(CHANGES)
    return whole_steps(path, rows, changes, numbers, np.asarray(grid))


def masks_and_changes(
    step: StepScores, path: Path, draws: Steps, settings: DatamodelJob
) -> tuple[np.ndarray, np.ndarray]:
    """Return the masks of a step (N, m), true where a token is kept, and their changes (N,).

    Masks of Soft-NS come first. N = (1 + P) · (K of Soft-NS + K of Soft-NC), with P the measured π.

    Raises:
        BenchmarkError: the step has no draws, or they were made with other scores.
    """
    sample_id = step.prompt["sample_id"]
    line = draws.line.get((sample_id, step.step))
    if line is None:
        raise BenchmarkError(f"{path}: sample '{sample_id}': lacks step {step.step}; {REPAIR}")
    alpha, achieved = draws.numbers["alpha"][line, 1:], draws.numbers["achieved"][line]
    probabilities = retaining_probabilities(step.scores(CONTROL), alpha, settings.score_floor)
    if not np.abs(probabilities.mean(axis=1) - achieved).max() <= SAME_MEAN:
        raise BenchmarkError(
            f"{path}: sample '{sample_id}': its draws were made with other scores; {REPAIR}"
        )
    m, key = step.perturbable.size, (settings.sampler, settings.seed, sample_id, step.step)
    drawn = masks_of(*key, (m, 1), alpha.size, settings.most_draws)
    measured = np.flatnonzero(draws.measured[line]).tolist()
    ns, nc = (draws.draws[name][line, measured] for name in CHANGES)  # (1 + P, K) each
    every = product(measured, range(max(ns.shape[1], nc.shape[1])))
    kept = [kept_tokens(drawn, probabilities, pi, draw)[:, 0] for pi, draw in every]
    ns_masks = np.reshape(kept, (len(ns), -1, m))
    nc_masks = ~ns_masks
    masks = [ns_masks[:, : ns.shape[1]].reshape(-1, m), nc_masks[:, : nc.shape[1]].reshape(-1, m)]
    return np.concatenate(masks), np.concatenate([ns.ravel(), nc.ravel()])


def mask_metrics(masks: np.ndarray, scores: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Return :data:`METRICS` of one step, (4, M); NaN where undefined.

    `masks` (N, m) are true where a token is kept, `scores` (m, M) have a column per method, and
    `changes` (N,) are of the target's log-probability.
    """
    if len(masks) < FEWEST_MASKS:
        return np.full((len(METRICS), scores.shape[1]), np.nan)
    kept = np.round(masks.astype(np.float64) @ scores, DECIMALS)  # (N, M)
    removed = np.round(scores.sum(axis=0) - kept, DECIMALS)
    drop = -changes[:, None]  # (N, 1)
    kept_ranks, change_ranks = rankdata(kept, axis=0), rankdata(changes)[:, None]
    count_ranks = rankdata(masks.sum(axis=1))[:, None]
    residuals = _given(kept_ranks, count_ranks), _given(change_ranks, count_ranks)
    rank_correlations = [correlation(kept_ranks, change_ranks), correlation(*residuals)]
    return np.stack([*rank_correlations, correlation(removed, drop), infidelity(removed, drop)])


def correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return Pearson's r of the columns of x (N, M) with y (N, 1); NaN where one is constant."""
    undefined = _constant(x) | _constant(y)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    scale = np.sqrt((x**2).sum(axis=0) * (y**2).sum(axis=0))
    return np.clip((x * y).sum(axis=0) / np.where(undefined, np.nan, scale), -1, 1)


def infidelity(removed: np.ndarray, drop: np.ndarray) -> np.ndarray:
    """Return the share of the squared drop (N, 1) that removed mass (N, M) cannot explain, (M,).

    With β = Σ removed · drop / Σ removed² this is 1 − (Σ removed · drop)² / (Σ removed² · Σ drop²).
    NaN where removed mass or drop is the same for all masks.
    """
    undefined = _constant(removed) | _constant(drop)
    scale = (removed**2).sum(axis=0) * (drop**2).sum(axis=0)
    explained = (removed * drop).sum(axis=0) ** 2 / np.where(undefined, np.nan, scale)
    return np.clip(1 - explained, 0, 1)


def _given(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return residuals of x (N, M) on the line in z (N, 1); 0 where only rounding is left."""
    x, z = x - x.mean(axis=0), z - z.mean(axis=0)
    variation = (z**2).sum()
    left = x if variation == 0 else x - z * ((x * z).sum(axis=0) / variation)
    return np.where((left**2).sum(axis=0) > NOTHING_LEFT * (x**2).sum(axis=0), left, 0.0)


def _constant(x: np.ndarray) -> np.ndarray:
    return (x == x[0]).all(axis=0)


def _step(
    step: StepScores, methods: Sequence[str], path: Path, draws: Steps, settings: DatamodelJob
) -> tuple[np.ndarray, list[str]]:
    """Return the metrics of a step (4, M), and by method the status of undefined ones."""
    sample_id = step.prompt["sample_id"]
    values = np.full((len(METRICS), len(methods)), np.nan)
    statuses = [step.status[name] for name in methods]
    if (why := draws.failed.get((sample_id, step.step))) is None:
        for name in settings.other_targets.get(path.stem, ()):
            if step.status.get(name) == OK:
                statuses[methods.index(name)] = OTHER_TARGET
        masks, changes = masks_and_changes(step, path, draws, settings)
        why = _why_unusable(changes)
        if np.isfinite(changes).all():
            scored = [status == OK for status in statuses]
            scores = [step.scores(name) for name in compress(methods, scored)]
            values[:, scored] = mask_metrics(masks, np.stack(scores, axis=1), changes)
    return values, [why if status == OK else status for status in statuses]


def _why_unusable(changes: np.ndarray) -> str:
    if not np.isfinite(changes).all():
        return NONFINITE_LOGITS
    if changes.size < FEWEST_MASKS:
        return TOO_FEW_MASKS
    return CONSTANT_CHANGES if (changes == changes[0]).all() else CONSTANT_SCORES


def _sample(steps: Sequence[tuple[np.ndarray, list[str]]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the metrics of a sample, means over steps with a value, and statuses, (4, M) each."""
    values = np.ma.masked_invalid([step_values for step_values, _ in steps])  # (steps, 4, M)
    means = values.mean(axis=0).filled(np.nan)
    return means, np.where(np.isnan(means), np.array(steps[0][1], dtype=object), OK)
