"""Agreement of methods on token importance: Kendall's τ and the overlap of top tokens.

For two methods at one step, over its m perturbable tokens:

- kendall_tau: Kendall's τ-b of their scores; ties count for neither order.
- top_overlap: |A ∩ B| / k, with A and B the k highest-scoring tokens of each method, and k a tenth
  of m, rounded half up, at least 1. Ties go to the earlier token. Unrelated methods have about k/m.

A step counts for a pair if both methods have scores and neither is constant: constant scores have
no τ, and their top tokens would be the first of the prompt. The value of a sample is the mean over
the steps that count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from pisoft.config.jobs.summaries import CompareJob
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.samples import mean_rows
from pisoft.statistics.scores import StepScores, read_scores, steps_by_sample

METRICS = ("kendall_tau", "top_overlap")
KEYS = ["metric", "method", "other"]


def summaries(files: Files, settings: CompareJob) -> dict[str, Summary]:
    """Compare the methods' scores on the prompts of one model and dataset."""
    (prompts,) = files["prompts"]
    steps = read_scores(prompts, files["attributions"], settings)
    model, dataset = prompts.with_suffix("").parts[-2:]
    samples = agreement_samples(steps, settings.methods)
    counts = {"n": samples.notna().sum(), "n_failed": samples.isna().sum()}
    rows = mean_rows(samples, files.clusters()).drop(columns=["low", "high"])
    rows = rows.assign(**counts).reset_index()
    return {"method_agreement": [rows.assign(model=model, dataset=dataset)]}


def with_averages(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means over datasets, each with equal weight, followed by a model's results.

    `n` and `n_failed` are totals over datasets; a mean needs a value in every dataset.
    """
    groups = rows.assign(variance=rows["standard_error"] ** 2).groupby(KEYS, sort=False)
    means = groups[["value", "variance"]].mean(skipna=False).join(groups[["n", "n_failed"]].sum())
    means["standard_error"] = np.sqrt(means.pop("variance") / groups.size())
    averages = means.reset_index().assign(dataset=AVERAGE)
    columns = ["dataset", *KEYS, "value", "standard_error", "n", "n_failed"]
    return pd.concat([averages, rows], ignore_index=True)[columns]


def agreement_samples(steps: Iterable[StepScores], methods: Sequence[str]) -> pd.DataFrame:
    """Return the agreement of every two methods, samples by :data:`KEYS`; NaN: no step counts."""
    columns = pd.MultiIndex.from_tuples(
        [(name, *pair) for pair in itertools.combinations(methods, 2) for name in METRICS],
        names=KEYS,
    )
    by_sample = {
        sample_id: pd.DataFrame([_step_agreement(step, methods) for step in sample]).mean()
        for sample_id, sample in steps_by_sample(steps)
    }
    return pd.DataFrame(by_sample).T.set_axis(columns, axis=1)


def top_overlaps(scores: np.ndarray) -> np.ndarray:
    """Return the overlap of the top tenth of every two columns of scores (m, M)."""
    count = max(1, (len(scores) + 5) // 10)  # a tenth, rounded half up
    top = np.argsort(-scores, axis=0, kind="stable")[:count]
    chosen = np.zeros(scores.shape)
    np.put_along_axis(chosen, top, 1.0, axis=0)
    return chosen.T @ chosen / count


def _step_agreement(step: StepScores, methods: Sequence[str]) -> np.ndarray:
    """Return one step's agreement, pair by pair; NaN where it does not count."""
    scores = pd.DataFrame({name: step.scores(name) for name in methods if name in step.raw})
    taus = scores.corr("kendall", min_periods=2)
    overlaps = pd.DataFrame(top_overlaps(scores.to_numpy()), taus.index, taus.columns)
    both = [part.reindex(methods, columns=methods) for part in (taus, overlaps.where(taus.notna()))]
    left, right = np.triu_indices(len(methods), k=1)
    return np.stack(both, axis=-1)[left, right].ravel()
