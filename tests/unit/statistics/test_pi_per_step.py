"""The number of π per step: variances against simulated runs, the closed form, and stored files."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import soft_files
from pisoft.config.evaluation import EvaluationSettings
from pisoft.faithfulness.masks import measured_pi
from pisoft.statistics.pi_per_step import advice, best_number, variances
from pisoft.statistics.soft_files import read_soft

GRID = np.array([0.1, 0.2, 0.35, 0.5, 0.6, 0.8, 0.9])


def curves_of(records, generator, steps=1, between=0.1, smooth=0.1, noise=0.2):
    """Return curves of steps, (G, P), and their records: level, tilt, steps and draws vary."""
    sample = np.repeat(np.arange(records), steps)
    level = generator.normal(0, between, (records, 1)).repeat(steps, axis=0)
    tilt = generator.normal(0, smooth, (records * steps, 1)) * np.linspace(-1, 1, GRID.size)
    rest = generator.normal(0, noise, (records * steps, GRID.size))
    return np.sqrt(GRID) + level + tilt + rest, sample


def kept(curves, sample, count, seed):
    """Return the curves with NaN where a run with so many π per step measures nothing."""
    measured = np.zeros(curves.shape, dtype=bool)
    index = np.arange(len(sample)) - np.searchsorted(sample, sample)
    for row, place in enumerate(zip(sample.tolist(), index.tolist(), strict=True)):
        measured[row, measured_pi(GRID.size, count, seed, place)] = True
    return np.where(measured, curves, np.nan)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("stored", [GRID.size, 3])
def test_variances_are_those_of_simulated_runs(stored, steps):
    """Whether all π have been stored or three of each step."""
    generator, records, runs = np.random.default_rng(1), 30, 400
    pilot, sample = curves_of(4000, generator, steps)
    expected = variances(kept(pilot, sample, stored, 1), sample, GRID)
    for count in (1, 2, GRID.size):
        drawn = (kept(*curves_of(records, generator, steps), count, seed) for seed in range(runs))
        areas = [np.trapezoid(np.nanmean(curves, axis=0), GRID) for curves in drawn]
        # Three π of each step do not show that neighbours vary together.
        tolerance = 0.15 if stored == GRID.size else 0.3
        assert expected[count - 1] / records == pytest.approx(np.var(areas), rel=tolerance), count


@pytest.mark.parametrize("ratio", [1, 10, 40])
def test_the_best_number_is_that_of_the_closed_form(ratio):
    """Where values at different π vary alike and apart from a record's level, on an even grid."""
    generator, size = np.random.default_rng(2), 100
    grid, between, within = np.linspace(0.01, 0.99, size), 0.1, 0.4
    curves = generator.normal(0, between, (2000, 1)) + generator.normal(0, within, (2000, size))
    counts = np.arange(1, size + 1)
    widths = variances(curves, np.arange(2000), grid) * (ratio + counts)
    expected = within / between * np.sqrt(ratio)
    assert 1 + np.argmin(widths[:60]) == pytest.approx(expected, abs=0.15 * expected + 1)


def test_one_pi_of_each_step_says_nothing_of_two():
    curves, sample = curves_of(50, np.random.default_rng(3))
    assert np.isnan(variances(kept(curves, sample, 1, 1), sample, GRID)[1:]).all()


@pytest.mark.parametrize("draws", [1, 4])
def test_stored_evaluations_say_which_number_is_best(tmp_path, draws):
    """By as many draws as the run asks for; other grids and very few records do not count."""
    settings = EvaluationSettings(preset="sparse", pi_grid=soft_files.GRID, draws=draws)
    dear, cheap = np.array([100.0, 100.1, 100.2]), np.array([1.0, 4.0, 9.0])
    few = soft_files.soft_rows(dict.fromkeys("ab", 1))
    soft_files.write_soft(tmp_path, few, soft_files.CELL._replace(method="few"))
    assert "evaluate a few records" in advice(tmp_path, settings, dear)
    rows = soft_files.soft_rows(dict.fromkeys(map(str, range(40)), 2))
    path = soft_files.write_soft(tmp_path, rows)
    number, widths, files = best_number([path], settings, dear)
    assert (number, files) == (3, 1)
    steps, expected = read_soft(path, settings.minimum_h0), []
    for metric in ("ns", "nc"):
        ratio = steps.draws[f"{metric}_distances"][:, 1:, :draws] / steps.h0[..., None]
        curve = (np.maximum(1 - ratio, 0) if metric == "ns" else ratio).mean(axis=-1)
        of_metric = variances(curve, steps.sample, steps.grid)
        expected.append(of_metric / of_metric[-1])
    assert widths == pytest.approx(np.sqrt(np.mean(expected, axis=0) * dear))
    text = advice(tmp_path, settings, dear)
    assert "pi_per_step: 3 gives the narrowest intervals at equal cost" in text
    assert f"{widths[2] / widths[1]:.2f} × those of 2, 1.00 × those of all 3 (from 1 stored" in text
    assert best_number([path], settings, cheap)[0] == 1
    whole = settings.model_copy(update={"pi_per_step": None})
    assert "included: 1.00 × those of all 3 (from 1 stored" in advice(tmp_path, whole, dear)
    assert advice(tmp_path / "empty", whole, dear) == ""
    other = EvaluationSettings(preset="sparse", pi_grid=[0.1, 0.9])
    assert best_number([path], other, dear[:2])[0] == 0
