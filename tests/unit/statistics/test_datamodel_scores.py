"""Datamodel scores from stored draws against the evaluation's masks, SciPy and brute force."""

import functools
import itertools

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import pearsonr, rankdata, spearmanr

from helpers import explained_rows, script_runs
from pisoft.config.jobs.summaries import DatamodelJob
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import PerturbationTarget
from pisoft.faithfulness.scores import aggregated
from pisoft.faithfulness.soft import BASELINES, StepEvaluation
from pisoft.statistics.datamodel_scores import METRICS, mask_metrics, masks_and_changes, read_draws
from pisoft.statistics.scores import StepScores
from pisoft.store.parquet import OK

GRID = (0.2, 0.5, 0.9)
DRAWS = {"ns": range(3), "nc": range(5)}  # as a budget may leave them
SETTINGS = {"pi_grid": GRID, "draws": 5, "normalisation": "minmax", "seed": 7, "other_targets": {}}
BAD, CHANGES = "nonfinite_attribution", "log_probability_changes"
TOKENS = 9
# Scores as they are, from 0 to 1; sums of 64ths are exact, so that equal masses are equal floats.
WEIGHTS = np.array([0, 19, 6, 64, 3, 40, 13, 26, 49]) / 64


def settings_of(**changes):
    return DatamodelJob.model_validate(SETTINGS | changes)


def evaluated(row, settings, effect=None, draws=DRAWS):
    """Return the masks (N, m) of a step's evaluation, and its rows of `soft`.

    `effect` gives the change of the log-probability of masks (N, m); None: noise.
    """
    count = len(explained_rows.BEFORE)
    target = PerturbationTarget(range(TOKENS + 3), np.arange(count, count + TOKENS), 1)
    step = StepEvaluation(row, target, settings, settings.seed, 16)
    if step.status != OK:
        return None, step.rows()
    drawn = step.perturbations(draws)
    masks = np.stack([drawn.mask(number)[:, 0] for number in range(drawn.count)])
    measured = np.full((drawn.count, 3), 0.5, np.float32)
    noise = np.random.default_rng(1).normal(size=drawn.count)
    measured[:, 2] = noise if effect is None else effect(masks)
    step.record(draws, measured)
    return masks[BASELINES:], step.rows()


def linear(masks):
    return masks @ WEIGHTS - WEIGHTS.sum()


def random_masks(count=200, probability=0.4, seed=3):
    return np.random.default_rng(seed).random((count, TOKENS)) < probability


@pytest.mark.parametrize("sampler", ["iid", "latin", "count"])
@pytest.mark.parametrize("normalisation", ["minmax", "rank", "max"])
def test_masks_equal_those_of_the_evaluation_bit_for_bit(tmp_path, sampler, normalisation):
    settings = settings_of(sampler=sampler, normalisation=normalisation)
    raw = np.random.default_rng(4).normal(size=TOKENS).astype(np.float32)
    expected, rows = evaluated(explained_rows.attribution("a", raw, 5), settings)
    soft = explained_rows.write(tmp_path, "soft", rows, "dynamic", "llama", "random")
    draws = read_draws(soft, GRID)
    assert (draws.line, draws.failed) == ({("a", 5): 0}, {})
    random = {"random": raw}, {"random": OK}
    step = StepScores({"sample_id": "a"}, 5, np.arange(TOKENS), *random, normalisation)
    masks, changes = masks_and_changes(step, soft, draws, settings)
    np.testing.assert_array_equal(masks, expected)
    stored = [change for m in ("ns", "nc") for row in rows for change in row[f"{m}_{CHANGES}"]]
    np.testing.assert_array_equal(changes, stored)


def by_scipy(masks, scores, changes):
    """The four numbers of one method, in the most direct computation."""
    kept, removed, drop = masks @ scores, ~masks @ scores, -changes
    ranks = [rankdata(values) for values in (kept, changes)]
    line = np.stack([rankdata(masks.sum(axis=1)), np.ones(len(masks))], axis=1)
    left = [values - line @ np.linalg.lstsq(line, values)[0] for values in ranks]
    unexplained = minimize_scalar(lambda beta: ((beta * removed - drop) ** 2).mean())
    return (
        spearmanr(kept, changes).statistic,
        pearsonr(*left).statistic,
        pearsonr(removed, drop).statistic,
        unexplained.fun / (drop**2).mean(),
    )


@pytest.mark.parametrize("levels", [3, 1025])
def test_numbers_equal_scipys_and_a_search_for_the_best_scale(levels):
    generator = np.random.default_rng(levels)
    scores = generator.integers(levels, size=(TOKENS, 4)) / (levels - 1)
    masks = random_masks()
    changes = np.round(linear(masks) + generator.normal(size=len(masks)), 1)  # with ties
    expected = [by_scipy(masks, method_scores, changes) for method_scores in scores.T]
    result = mask_metrics(masks, scores, changes).T
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-9)


def test_masks_of_equal_mass_are_ties_despite_rounding():
    """0.1 + 0.2 + 0.3 depends on the order of addition."""
    scores = np.array([[0.1], [0.2], [0.3], [0.3], [0.2], [0.1], [0.7], [0.0], [1.0]])
    masks = np.zeros((8, TOKENS), bool)
    for mask, places in zip(masks, itertools.product((0, 5), (1, 4), (2, 3)), strict=True):
        mask[list(places)] = True
    masks[-1, 6] = True
    expected = spearmanr([0] * 7 + [1], changes := np.arange(8.0)).statistic
    assert mask_metrics(masks, scores, changes)[0, 0] == pytest.approx(expected)


def test_scores_are_undefined_without_variance_or_three_masks():
    masks = random_masks()
    scores = WEIGHTS[:, None]
    assert np.isnan(mask_metrics(masks, scores, np.full(len(masks), -0.25))).all()
    assert np.isnan(mask_metrics(masks[:2], scores, np.arange(2.0))).all()
    assert np.isfinite(mask_metrics(masks[:3], scores, np.arange(3.0))).all()
    outside = masks.copy()
    outside[:, 3] = True
    only = np.eye(TOKENS)[:, [3]]  # of a token that no mask removes
    assert np.isnan(mask_metrics(outside, only, linear(outside))).all()


def summarised(folder, steps, effects=None, raw=None, **changes):
    """Return values and statuses by protocol, method, sample and metric.

    `steps` = {(sample, step): status of the random scores}; `raw` = {method: raw scores at every
    step, or None}; `effects` = {protocol: effect of masks}.
    """
    settings = settings_of(**changes)
    effects = effects or {"dynamic": linear}
    samples = dict.fromkeys(sample for sample, _ in steps)
    prompts = [explained_rows.prompt(sample, ["t"] * TOKENS) for sample in samples]
    control = control_rows(steps)
    methods = {"random": control}
    for method, scores in (raw or {"true": WEIGHTS}).items():
        status = BAD if scores is None else OK
        methods[method] = [explained_rows.attribution(s, scores, step, status) for s, step in steps]
    if settings.step_scores == "aggregated":
        groups = itertools.groupby(control, key=lambda row: row["sample_id"])
        control = [row for _, rows in groups for row in aggregated(list(rows))]
    soft = {
        protocol: [row for step in control for row in evaluated(step, settings, effect)[1]]
        for protocol, effect in effects.items()
    }
    rows = samples_of(folder, prompts, methods, soft, settings)
    assert {(row["model"], row["dataset"]) for row in rows} == {("llama", "sst2")}
    keys = ("protocol", "method", "sample_id", "metric")
    values = {tuple(row[key] for key in keys): (row["value"], row["status"]) for row in rows}
    assert len(values) == len(rows) == len(effects) * len(methods) * len(samples) * len(METRICS)
    return values


def control_rows(steps):
    generator = np.random.default_rng(11)
    scores = {key: generator.random(TOKENS).astype(np.float32) for key in steps}
    return [
        explained_rows.attribution(key[0], scores[key] if status == OK else None, key[1], status)
        for key, status in steps.items()
    ]


def samples_of(folder, prompts, methods, soft, settings):
    """Rows of the summary of `attributions` by method and `soft` by protocol."""
    write = functools.partial(explained_rows.write, folder)
    files = {
        "prompts": [write("prompts", prompts, "llama")],
        "attributions": [write("attributions", methods[m], "llama", m) for m in methods],
        "soft": [write("soft", soft[protocol], protocol, "llama", "random") for protocol in soft],
    }
    kind = "datamodel_samples"
    return script_runs.summary_rows("datamodel_scores", settings, files, folder, kind)


@pytest.mark.parametrize("step_scores", ["own", "aggregated"])
def test_the_summary_finds_the_true_weights_under_each_protocol(tmp_path, step_scores):
    effects = {"dynamic": linear, "fixed": lambda masks: -linear(masks)}
    steps = {("a", 0): OK, ("a", 5): OK, ("b", 0): OK}
    values = summarised(tmp_path, steps, effects, step_scores=step_scores)
    for protocol, expected in (("dynamic", [1, 1, 1, 0]), ("fixed", [-1, -1, -1, 0])):
        for sample, (metric, value) in itertools.product("ab", zip(METRICS, expected, strict=True)):
            result = (pytest.approx(value, abs=1e-3), OK)  # changes are float32
            assert values[protocol, "true", sample, metric] == result


def test_samples_are_means_over_the_steps_with_draws(tmp_path):
    steps = {("a", 0): OK, ("a", 5): OK, ("a", 10): "empty_generation"}
    values = summarised(tmp_path, steps, raw={"other": WEIGHTS[::-1]})
    masks = [evaluated(row, settings_of())[0] for row in control_rows(steps)[:2]]
    steps = [mask_metrics(kept, WEIGHTS[::-1, None], linear(kept))[:, 0] for kept in masks]
    for metric, expected in zip(METRICS, np.mean(steps, axis=0), strict=True):
        assert values["dynamic", "other", "a", metric] == (pytest.approx(expected, abs=1e-5), OK)


def test_undefined_numbers_are_rows_with_a_reason(tmp_path):
    steps = {("a", 0): OK, ("failed", 0): "empty_generation"}
    raw = {"equal": np.ones(TOKENS), "broken": None, "other": WEIGHTS}
    targets = {"sst2": ("other",), "imdb": ("equal",)}
    values = summarised(tmp_path, steps, raw=raw, other_targets=targets)
    assert values["dynamic", "other", "a", "lds"] == (None, "other_target")
    assert values["dynamic", "other", "failed", "lds"] == (None, "empty_generation")
    assert values["dynamic", "equal", "a", "lds"][1] == OK
    assert values["dynamic", "equal", "a", "lds_given_count"] == (None, "constant_scores")
    for metric in METRICS:
        assert values["dynamic", "broken", "a", metric] == (None, BAD)
        assert values["dynamic", "equal", "failed", metric] == (None, "empty_generation")
    for change, status in ((-0.5, "constant_changes"), (-np.inf, "nonfinite_logits")):
        effects = {"dynamic": lambda masks, change=change: np.full(len(masks), change)}
        assert {*summarised(tmp_path, {("a", 0): OK}, effects).values()} == {(None, status)}


def test_draws_from_other_scores_or_settings_are_refused(tmp_path):
    row = explained_rows.attribution("a", WEIGHTS)
    _, rows = evaluated(row, settings_of())
    prompts = [explained_rows.prompt("a", ["t"] * TOKENS)]
    for attribution, soft, problem in (
        (explained_rows.attribution("a", WEIGHTS**2), rows, "made with other scores"),
        (row, rows[:-1], "lacks or repeats a retaining probability"),
        (row, [{**one, "step": 5} for one in rows], "lacks step 0"),
        (row, [{**one, f"nc_{CHANGES}": None} for one in rows], f"no 'nc_{CHANGES}'"),
    ):
        files = prompts, {"random": [attribution]}, {"dynamic": soft}
        with pytest.raises(BenchmarkError, match=problem):
            samples_of(tmp_path, *files, settings_of())
