"""Draw budgets: when draws are added, and equality with a fixed number at the maximum."""

import itertools

import numpy as np
import pytest
from scipy.stats import t

from helpers.evaluations import evaluated
from helpers.random_models import model_and_network
from pisoft.config.evaluation import DrawBudget, EvaluationSettings
from pisoft.faithfulness.budget import first_draws, further_draws, half_width
from pisoft.faithfulness.curves import area_variance
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.faithfulness.soft import METRICS, StepEvaluation, measure_draws

GRID = (0.2, 0.5, 0.9)
IDS = [1, 40, 41, 8, 9, 10, 33, 60, 12, 7]


def cases(samples=6, steps=1):
    """Return targets with attributions of several samples; scores differ."""
    generator, pairs = np.random.default_rng(4), []
    for number, step in itertools.product(range(samples), range(steps)):
        ids = [*IDS[:9], 20 + number, *range(30, 30 + step)]
        row = {"sample_id": f"s{number}", "step": step, "status": "ok"}
        row["raw_scores"] = generator.random(10).tolist()
        pairs.append((PerturbationTarget(ids, np.arange(3, 9), 5), row))
    return pairs


def run(model, given, settings, seed=1):
    """Evaluate like the script; return the steps and the number of rounds."""
    steps = [StepEvaluation(row, target, settings, seed, model.width) for target, row in given]
    draws, rounds = first_draws(settings.draws), 0
    while any(draws.values()):
        measure_draws(Perturber(model, 500), steps, draws)
        draws, rounds = further_draws(settings.draws, steps, draws), rounds + 1
    return steps, rounds


def settings_with(draws, sampler="iid"):
    return EvaluationSettings(pi_grid=GRID, draws=draws, sampler=sampler, clamp="none")


def drawn(step):
    row = step.rows()[1]
    return len(row["ns_distances"]), len(row["nc_distances"])


@pytest.mark.parametrize(
    ("draws", "count"), [(3, 3), (DrawBudget(target_half_width=10, max=15), 1)]
)
def test_fixed_draws_and_narrow_intervals_take_one_round(draws, count):
    model, _ = model_and_network("llama-gqa")
    steps, rounds = run(model, cases(), settings_with(draws))
    assert rounds == 1
    assert {drawn(step) for step in steps} == {(count, count)}


@pytest.mark.parametrize("sampler", ["iid", "latin", "count"])
def test_an_exhausted_budget_equals_the_fixed_number_of_draws(sampler):
    model, _ = model_and_network("llama-gqa")
    budget = DrawBudget(target_half_width=1e-9, max=7)
    steps, _ = run(model, cases(), settings_with(budget, sampler))
    fixed = evaluated(model, cases(), settings_with(7, sampler))
    for step, rows in zip(steps, fixed, strict=True):
        for one, other in zip(step.rows(), rows, strict=True):
            assert one["h0"] == pytest.approx(other["h0"], abs=1e-12)
            for name in ("ns_distances", "nc_distances", "ns_total_variations"):
                np.testing.assert_allclose(one[name], other[name], rtol=0, atol=1e-9)


def test_draws_are_added_until_each_metrics_interval_is_narrow():
    model, _ = model_and_network("llama-gqa")
    start, _ = run(model, cases(12), settings_with(2))
    target = half_width(start, "ns") / 1.5
    budget = DrawBudget(target_half_width=target, max=90)
    steps, rounds = run(model, cases(12), settings_with(budget))
    assert rounds > 1
    (counts,) = {drawn(step) for step in steps}
    for metric, count in zip(METRICS, counts, strict=True):
        assert 1 < count < 90
        assert half_width(steps, metric) <= target


def test_the_half_width_is_that_of_the_mean_over_samples():
    model, _ = model_and_network("llama-gqa")
    steps, _ = run(model, cases(4, steps=2), settings_with(5))
    rows = [step.rows() for step in steps]
    for metric in METRICS:
        by_sample = {}
        for step, step_rows in zip(steps, rows, strict=True):
            curves = np.array([row[f"{metric}_distances"] for row in step_rows[1:]]) / step.h0
            curves = 1 - curves if metric == "ns" else curves
            areas = np.trapezoid(curves, GRID, axis=0)
            by_sample.setdefault(step.sample_id, []).append(np.var(areas, ddof=1) / 5)
        variance = sum(sum(variances) / 4 for variances in by_sample.values()) / 16
        expected = t.ppf(0.975, 8 * 4) * variance**0.5
        assert half_width(steps, metric) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_the_interval_covers_the_mean_of_many_draws():
    """95 % intervals of 60 seeds; fewer than 51 hits: probability below 0.2 %."""
    model, _ = model_and_network("llama-gqa")
    many = evaluated(model, cases(), settings_with(600), seed=999)
    truth = np.mean(
        [
            np.trapezoid([1 - np.mean(row["ns_distances"]) / row["h0"] for row in rows[1:]], GRID)
            for rows in many
        ]
    )
    held = 0
    for seed in range(60):
        steps, _ = run(model, cases(), settings_with(4), seed)
        mean = np.mean([np.trapezoid(step.curves("ns").mean(axis=1), GRID) for step in steps])
        held += abs(mean - truth) <= half_width(steps, "ns")
    assert held >= 51


def test_the_variance_of_single_draws_is_estimated_from_roughness():
    """Noise of known variance, different at every π, on a line and on a bent curve."""
    generator = np.random.default_rng(0)
    grid = np.sort(generator.uniform(0.05, 0.95, 19))
    deviations = np.linspace(0.1, 0.3, 19)
    weights = np.array([np.trapezoid(unit, grid) for unit in np.eye(19)])
    expected = float((weights**2 * deviations**2).sum())
    noise = generator.normal(size=(4000, 19)) * deviations
    assert np.var(noise @ weights) == pytest.approx(expected, rel=0.1), "the estimated quantity"
    for smooth in (3 - 2 * grid, np.sqrt(grid)):
        variances, freedom = zip(
            *(area_variance((smooth + deviation)[:, None], grid) for deviation in noise),
            strict=True,
        )
        assert np.mean(variances) == pytest.approx(expected, rel=0.1)
        assert set(freedom) == {17}


def test_a_straight_curve_without_noise_has_no_variance():
    grid = np.array([0.1, 0.2, 0.5, 0.9])
    assert area_variance((1 - grid)[:, None], grid)[0] == pytest.approx(0, abs=1e-30)


def test_failed_steps_do_not_count():
    model, _ = model_and_network("llama-gqa")
    settings = settings_with(2)
    steps, _ = run(model, cases(), settings)
    target, row = cases()[0]
    failed = StepEvaluation({**row, "status": "empty_generation"}, target, settings, 1, 32)
    assert half_width([*steps, failed], "nc") == half_width(steps, "nc")
    assert half_width([failed], "nc") == 0
    budget = DrawBudget(target_half_width=1)
    assert not any(further_draws(budget, [failed], first_draws(budget)).values())
