"""How far methods agree on which tokens matter: Kendall's τ and the overlap of the top tokens.

Of two methods at one step, over its m perturbable tokens:

- kendall_tau = Kendall's τ-b of their scores. Ties count for neither order.
- top_overlap = |A ∩ B| / k, with A and B the k tokens of highest score of each method, and k a
  tenth of m, rounded half up, at least 1. Of equal scores, the token that comes first in the prompt
  counts as higher. Two unrelated methods have about k / m.

A step counts for a pair if both methods have scores and neither gives all tokens the same score:
then τ is undefined, and the top tokens would be the first of the prompt. A sample's value is the
mean over its steps that count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pisoft.config.slices.summaries import CompareSlice
from pisoft.statistics.reading import Files, Summary
from pisoft.statistics.scores import StepScores, read_scores

STATISTICS = ("kendall_tau", "top_overlap")
# Comparisons of two tokens held at a time, over all methods. Float32 counts up to 2²⁴ exactly.
COMPARISONS_AT_ONCE = 2**20


Settings = CompareSlice


def summaries(files: Files, settings: CompareSlice) -> dict[str, Summary]:
    """Compare the methods' scores on the prompts of one model and dataset."""
    (prompts,) = files["prompts"]
    steps = read_scores(prompts, files["attributions"], settings)
    model, dataset = prompts.with_suffix("").parts[-2:]
    return {"agreement": agreement_rows(model, dataset, settings.methods, steps)}


def agreement_rows(
    model: str, dataset: str, methods: Sequence[str], steps: Iterable[StepScores]
) -> list[dict[str, Any]]:
    """Compare every two methods, as rows of kind `agreement`.

    Means are over the samples with a step that counts for the pair, `n` of them; the others are
    `n_failed`. The standard error is null for a single sample.

    Args:
        model: of the scores.
        dataset: of the scores.
        methods: names, in the order in which they are paired.
        steps: the scores, all steps of a sample in a row.
    """
    by_sample = itertools.groupby(steps, key=lambda step: step.prompt["sample_id"])
    values = np.array([_mean_over_steps(own, methods) for _, own in by_sample])  # (N, 2, M, M)
    values = values.reshape(-1, len(STATISTICS), len(methods), len(methods))
    return [
        {
            "model": model,
            "dataset": dataset,
            "method": methods[first],
            "other": methods[second],
            "statistic": statistic,
            **_mean_over_samples(values[:, place, first, second]),
        }
        for first, second in itertools.combinations(range(len(methods)), 2)
        for place, statistic in enumerate(STATISTICS)
    ]


def kendall_taus(scores: np.ndarray) -> np.ndarray:
    """Return Kendall's τ-b of every two methods.

    The signs of all differences between two tokens' scores are one vector per method. Such vectors'
    scalar products count concordant less discordant pairs of tokens, and with themselves pairs that
    are not tied: τ-b is their cosine. Time grows as M · m², memory does not.

    Args:
        scores: finite, shape (M methods, m tokens).

    Returns:
        τ-b, shape (M, M); NaN where a method has the same score for all tokens.
    """
    methods, tokens = scores.shape
    places = [np.unique(own, return_inverse=True)[1] for own in scores]
    ranks = np.array(places, dtype=np.float32).reshape(methods, tokens)
    products = np.zeros((methods, methods))
    for rows in np.array_split(ranks, _parts(methods * tokens**2), axis=1):
        signs = np.clip(rows[:, :, None] - ranks[:, None, :], -1, 1).reshape(methods, -1)
        products += signs @ signs.T
    untied = np.diag(products)
    with np.errstate(invalid="ignore"):
        return products / np.sqrt(np.outer(untied, untied))


def top_overlaps(scores: np.ndarray) -> np.ndarray:
    """Return the share of common tokens among the top tenth of every two methods.

    Args:
        scores: finite, shape (M methods, m tokens), m ≥ 1.

    Returns:
        Shares, shape (M, M).
    """
    count = top_count(scores.shape[1])
    top = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    chosen = np.zeros(scores.shape)
    np.put_along_axis(chosen, top, 1.0, axis=1)
    return chosen @ chosen.T / count


def top_count(tokens: int) -> int:
    """Return a tenth of the number of tokens, rounded half up, at least 1."""
    return max(1, (tokens + 5) // 10)


def _parts(comparisons: int) -> int:
    return max(1, comparisons // COMPARISONS_AT_ONCE)


def _mean_over_steps(steps: Iterable[StepScores], methods: Sequence[str]) -> np.ndarray:
    """Return a sample's statistics, (2, M, M); NaN where no step counts."""
    values = np.array([_step_values(step, methods) for step in steps])  # (steps, 2, M, M)
    counted = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(counted, values, 0.0).sum(axis=0) / counted.sum(axis=0)


def _step_values(step: StepScores, methods: Sequence[str]) -> np.ndarray:
    """Return one step's statistics, (2, M, M); NaN where it does not count."""
    values = np.full((len(STATISTICS), len(methods), len(methods)), np.nan)
    have = [place for place, method in enumerate(methods) if method in step.raw]
    if have:
        scores = np.array([step.scores(methods[place]) for place in have])
        taus = kendall_taus(scores)
        overlaps = np.where(np.isnan(taus), np.nan, top_overlaps(scores))
        values[:, np.array(have)[:, None], have] = taus, overlaps
    return values


def _mean_over_samples(values: np.ndarray) -> dict[str, Any]:
    """Return mean, standard error, n and n_failed of samples' values, NaN where one has none."""
    found = values[~np.isnan(values)]
    n = found.size
    return {
        "value": float(found.mean()) if n else None,
        "standard_error": float(found.std(ddof=1) / np.sqrt(n)) if n > 1 else None,
        "n": n,
        "n_failed": values.size - n,
    }
