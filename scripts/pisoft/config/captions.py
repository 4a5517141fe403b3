"""A run's settings in words, for the captions of the report.

A caption is a Jinja template that sees the run file as it was written, without the defaults that
were filled in, so it takes these sentences instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from pisoft.config.base import Erasure
from pisoft.config.evaluation import CLAMPS, DrawBudget, DrawSettings, RankingSettings
from pisoft.config.methods import Method
from pisoft.config.operators import Operators
from pisoft.config.parts import sample_limit
from pisoft.config.resolved import Config
from pisoft.config.studies import LayerStudy
from pisoft.config.trust import Trust

STEP_SCORES = {
    "own": "its own scores",
    "aggregated": "the mean of the scores of all explained steps of its sample",
}
_SAMPLERS = {
    "iid": "independent of each other",
    "latin": "spread evenly over draws and values of π",
    "count": "each of which keeps round(π·m) of a step's m tokens",
}
LONGEST_LIST = 5  # values of π that are all named
ROUNDING = 1e-9  # by which the gaps of an even grid may differ
_ANSWERS = {
    "label_word": "the label word that the model prefers",
    "first_token": "the first token that it would generate",
}
_ERASURES: dict[Erasure, str] = {
    "zero": "zeroed",
    "mean": "given the mean embedding",
    "unknown": "given that of the unknown token",
    "hide": "hidden from attention",
}
_OPERATORS = {"remove": "left out of the sequence", "zero": "zeroed in the input embeddings"}


class Sentences(dict[str, str]):
    """Sentences by what they are on; in a raw configuration, they are known by their type."""


def settings_in_words(config: Config) -> Sentences:
    """Return sentences on the settings that tables, figures and pages depend on.

    They are reStructuredText. Sections that the run file switches off have no sentence.
    """
    run_file = config.run_file
    evaluation = run_file.evaluation
    generation = run_file.generation
    found = {
        "samples": f"Samples: {_samples(config)} (seed {run_file.seed}).",
        "answers": f"Open answers: greedy, at most {generation.max_new_tokens} tokens; from the "
        f"first on, one of every {generation.step_interval} is explained.",
        "scores": f"Scope of the scores: ``{evaluation.scope}``; raw scores are normalised by "
        f"``{evaluation.normalisation}``; a step is evaluated by "
        f"{STEP_SCORES[evaluation.step_scores]}.",
        "grid": f"Grid of π: {_numbers(evaluation.pi_grid)}; calibrated are scores clipped to "
        f"[f, 1 − f] with f = {evaluation.score_floor:g}.",
        "masks": f"Masks: {_draws(evaluation)}, {_SAMPLERS[evaluation.sampler]} "
        f"(``{evaluation.sampler}``), one bit per {evaluation.mask} (seed {run_file.seed}); what "
        f"is not kept is {_ERASURES[evaluation.operator]} (``{evaluation.operator}``). A step "
        f"fails where H₀ is below {evaluation.minimum_h0:g}.",
        "clamp": f"Soft-NS is {CLAMPS[evaluation.clamp]}.",
        "tests": f"{run_file.statistics.resamples} bootstrap resamples and sign flips, "
        f"of few samples all flips (seed {run_file.seed}).",
    }
    if run_file.ranking is not None:
        found["ranking"] = _ranking(run_file.ranking)
    if run_file.layer_study is not None:
        found["layer_study"] = _layer_study(run_file.layer_study)
    if run_file.trust is not None:
        found["trust"] = _trust(run_file.trust)
    if run_file.operators is not None:
        found["operators"] = _operators(run_file.operators)
    if run_file.qualitative is not None:
        found["tokens"] = f"Top tokens: {run_file.qualitative.top_share:.3g} of a text."
    if run_file.explorer is not None:
        found["explorer"] = (
            f"At most {run_file.explorer.samples} samples of each model and dataset."
        )
    return Sentences(found)


def left_out(config: Config, methods: Mapping[str, Method]) -> tuple[str, ...]:
    """Return the labels of the catalogue's methods that a run is without, and what they need."""
    return tuple(
        f"{method.label}, which needs a masked model" if method.needs_masked_model else method.label
        for name, method in methods.items()
        if name not in config.methods
    )


def demonstration_warning(config: Config) -> str:
    """Return what numbers of models or records that the workflow made do not show, or nothing.

    It is a job's parameter, which `report.html` shows as markup: names are safe there, labels not.
    """
    models = [name for name, entry in config.models.items() if entry.source.kind == "trained"]
    records = [name for name, entry in config.datasets.items() if entry.source.kind == "embedded"]
    made = [f"models ({', '.join(models)})"] * bool(models)
    made += [f"records ({', '.join(records)})"] * bool(records)
    if not made:
        return ""
    return (
        f"A demonstration: the workflow made its {' and '.join(made)} itself. The numbers show "
        "that the benchmark works, not how faithful the methods are on real models and texts."
    )


def _samples(config: Config) -> str:
    limits = {name: sample_limit(config, name) for name in config.datasets}
    return ", ".join(
        f"``{name}`` " + ("all" if limit is None else f"at most {limit}")
        for name, limit in limits.items()
    )


def _numbers(grid: Sequence[float]) -> str:
    """List the values, of a long and even grid the first two and the last."""
    gaps = [high - low for low, high in itertools.pairwise(grid)]
    if len(grid) > LONGEST_LIST and max(gaps) - min(gaps) < ROUNDING:
        return f"{grid[0]:g}, {grid[1]:g}, …, {grid[-1]:g} ({len(grid)} values)"
    return ", ".join(f"{pi:g}" for pi in grid)


def _draws(evaluation: DrawSettings) -> str:
    draws = evaluation.draws
    if isinstance(draws, DrawBudget):
        return (
            f"up to {draws.max} per π, until the 95 % Monte Carlo interval of a cell's mean AUC "
            f"is ±{draws.target_half_width:g}"
        )
    return f"{draws} per π, and as many for the original metrics"


def _ranking(ranking: RankingSettings) -> str:
    return (
        f"Tokens are {_OPERATORS[ranking.operator]}, in {ranking.steps} steps of equal share; the "
        f"answer that may flip is {_ANSWERS[ranking.flip_of]}."
    )


def _layer_study(study: LayerStudy) -> str:
    fixed = "all layers" if study.fixed_depth is None else str(study.fixed_depth)
    return (
        f"Depths: {', '.join(map(str, study.depths))}; fixed depth: {fixed}; share of samples that "
        f"select the depth: {study.development_share:g}."
    )


def _operators(operators: Operators) -> str:
    return (
        f"Operators beside the run's own: {', '.join(operators.others)}; random masks of a step at "
        f"each π: {operators.draws}."
    )


def _trust(trust: Trust) -> str:
    noise = ", ".join(f"{deviation:g}" for deviation in trust.noise)
    return (
        f"Noise on the oracle's scores of 0 and 1: standard deviations {noise}; ``{trust.middle}`` "
        f"is the noisy one that is compared. Permuted twins of each method: {trust.twins}. Random "
        f"masks of each metric and π that are searched for the best: {trust.search}."
    )
