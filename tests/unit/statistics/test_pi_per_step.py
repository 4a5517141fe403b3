"""The number of π per step: variances over every start, and stored files."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from helpers import soft_files
from pisoft.config.evaluation import EvaluationSettings
from pisoft.faithfulness.masks import measured_pi, systematic_pi
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
    """Return the curves with NaN where a run with few π per step has no measurement."""
    measured = np.zeros(curves.shape, dtype=bool)
    index = np.arange(len(sample)) - np.searchsorted(sample, sample)
    for row, place in enumerate(zip(sample.tolist(), index.tolist(), strict=True)):
        measured[row, measured_pi(GRID.size, count, seed, place)] = True
    return np.where(measured, curves, np.nan)


def test_variances_equal_those_over_every_start():
    """Records of one, two and three steps, with every choice of π."""
    generator, steps, size = np.random.default_rng(4), [1, 2, 3, 2, 1], GRID.size
    sample = np.repeat(np.arange(5), steps)
    curves = np.sqrt(GRID) + generator.normal(size=(sample.size, size))
    weights = 1 / np.repeat(steps, steps)[:, None]
    means = (weights * curves).sum(axis=0) / 5
    parts = weights * (curves - means) * np.trapezoid(np.eye(size), GRID, axis=0)
    widths = variances(curves, sample, GRID)
    for count in (1, 2, 3, size):
        starts = [systematic_pi(size, count, (k + 0.5) / size) for k in range(size)]
        squares = 0.0
        for record in range(5):
            step_values = [
                [size * part[one].mean() for one in starts] for part in parts[sample == record]
            ]
            squares += np.mean([sum(chosen) ** 2 for chosen in itertools.product(*step_values)])
        assert widths[count - 1] == pytest.approx(squares / 4), count


def test_three_pi_per_step_estimate_nearly_the_full_variances():
    """The three are far apart, so correlations of neighbours are missed."""
    curves, sample = curves_of(3000, np.random.default_rng(1), between=0.3, noise=0.1)
    few = variances(kept(curves, sample, 3, 1), sample, GRID)
    assert few == pytest.approx(variances(curves, sample, GRID), rel=0.1)


def test_one_pi_per_step_gives_no_estimate_for_two():
    curves, sample = curves_of(50, np.random.default_rng(3))
    assert np.isnan(variances(kept(curves, sample, 1, 1), sample, GRID)[1:]).all()


@pytest.mark.parametrize("draws", [1, 4])
def test_stored_evaluations_give_the_best_number_of_pi(tmp_path, draws):
    """For the draws of the run; other grids and very few records do not count."""
    settings = EvaluationSettings(preset="sparse", pi_grid=soft_files.GRID, draws=draws)
    dear, cheap = np.array([100.0, 100.1, 100.2]), np.array([1.0, 4.0, 9.0])
    few = soft_files.soft_rows(dict.fromkeys("ab", 1))
    single = [
        row
        if row["pi"] in (None, soft_files.GRID["abcd".index(row["sample_id"]) % 3])
        else row | dict.fromkeys(soft_files.PER_DRAW)
        for row in soft_files.soft_rows(dict.fromkeys("abcd", 1))
    ]
    useless = [
        soft_files.write_soft(tmp_path, rows, soft_files.CELL._replace(method=name))
        for name, rows in (("few", few), ("single", single))
    ]
    assert "evaluate a few records" in advice(tmp_path, settings, dear)
    rows = soft_files.soft_rows(dict.fromkeys(map(str, range(40)), 2))
    path = soft_files.write_soft(tmp_path, rows)
    number, widths, files = best_number([*useless, path], settings, dear)
    assert (number, files) == (3, 1)
    steps, expected = read_soft(path, settings.minimum_h0), []
    for metric in ("ns", "nc"):
        ratio = steps.draws[f"{metric}_distances"][:, 1:, :draws] / steps.h0[..., None]
        curve = (np.maximum(1 - ratio, 0) if metric == "ns" else ratio).mean(axis=-1)
        metric_variances = variances(curve, steps.sample, steps.grid)
        expected.append(metric_variances / metric_variances[-1])
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
    three = soft_files.write_soft(tmp_path, soft_files.soft_rows(dict.fromkeys("abc", 1)))
    assert best_number([three], settings, dear)[2] == 1
