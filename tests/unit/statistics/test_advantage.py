"""Differences to random scores against closed forms and the written draws."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from helpers import script_runs
from helpers.soft_files import GRID, PER_DRAW, mean_curve, soft_rows, soft_summaries, soft_value
from pisoft.statistics.advantage import HALVES, half_weights
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.results import select

SETTINGS = {"seed": 1, "resamples": 200}
STEPS = {"a": 3, "b": 1, "c": 2}


def advantage(folder, *cells):
    """Write cells, (method, dataset, rows), and return the rows of the summary."""
    files = soft_summaries(folder, {(method, dataset): rows for method, dataset, rows in cells})
    del files["soft_samples"]
    return pd.DataFrame(script_runs.summary_rows("advantage", SETTINGS, files, folder))


def keyed(rows, part):
    keys = ["metric", "dataset", "method", *(["position"] if part == "at" else [])]
    return rows[rows["part"] == part].set_index(keys)


def mean_heights(rows, metric):
    """Mean curve over samples, (P,)."""
    curves = [mean_curve(rows, name, lambda row: soft_value(row, metric)) for name in STEPS]
    return np.mean([[curve[pi] for pi in GRID] for curve in curves], axis=0)


def test_every_number_is_recomputed_from_the_written_draws(tmp_path):
    rows = {method: soft_rows(STEPS, seed) for seed, method in enumerate(("random", "mine"))}
    results = advantage(tmp_path, *((method, "sst2", rows[method]) for method in rows))
    for metric in ("ns", "nc"):
        mean = mean_heights(rows["mine"], metric) - mean_heights(rows["random"], metric)
        at = (f"pi_soft_{metric}", "sst2", "mine")
        points = select(results, part="at", metric=at[0], dataset="sst2")
        assert points["value"].to_numpy() == pytest.approx(mean)
        middle = mean[1] + (mean[2] - mean[1]) * 0.2  # at .5, between .4 and .9
        lower = (0.3 * (mean[0] + mean[1]) / 2 + 0.1 * (mean[1] + middle) / 2) / 0.4
        upper = (middle + mean[2]) / 2
        for part, value in zip(HALVES, (lower, upper, upper - lower), strict=True):
            assert keyed(results, part)["value"][at] == pytest.approx(value)
    assert (results["low"] < results["value"]).all()
    assert (results["value"] < results["high"]).all()
    assert (select(results, dataset="sst2")["n"] == 3).all()
    assert (results["p_value"].notna() == (results["part"] != "at")).all(), "halves are tested"


def test_points_use_the_samples_measured_there_and_halves_use_all(tmp_path):
    """With a single sample, the error is unknown."""
    places, cells = {"a": 0.1, "b": 0.1, "c": 0.4, "d": 0.9, "e": 0.9}, []
    for seed, method in enumerate(("random", "mine")):
        rows = soft_rows(dict.fromkeys(places, 1), seed)
        for row in rows:
            if row["pi"] and row["pi"] != places[row["sample_id"]]:
                row |= dict.fromkeys(PER_DRAW)
        cells.append((method, "sst2", rows))
    results = advantage(tmp_path, *cells)
    points = select(results, part="at", dataset="sst2", metric="pi_soft_nc").set_index("position")
    rows, control = (
        {
            row["sample_id"]: soft_value(row, "nc")
            for row in rows
            if row["pi"] and row["nc_distances"]
        }
        for _, _, rows in reversed(cells)
    )
    for pi, point in points.iterrows():
        measured = [rows[name] - control[name] for name, at in places.items() if at == pi]
        assert point["value"] == pytest.approx(np.mean(measured))
        if len(measured) > 1:
            assert point["standard_error"] == pytest.approx(stats.sem(measured), rel=0.2)
        assert (point["n"], point["n_failed"]) == (len(measured), 0)
    assert points["low"].notna().to_dict() == {0.1: True, 0.4: False, 0.9: True}
    halves = select(results, part="lower", dataset="sst2")
    assert halves["low"].notna().all()
    assert (halves["n"] == len(places)).all()


def test_failed_samples_have_no_difference(tmp_path):
    every = dict.fromkeys(itertools.product(STEPS, (0, 5, 10)), "nonfinite_attribution")
    results = advantage(
        tmp_path,
        ("random", "sst2", soft_rows(STEPS, status={("b", 0): "nonfinite_attribution"})),
        ("mine", "sst2", soft_rows({**STEPS, "d": 1})),
        ("random", "imdb", soft_rows(STEPS)),
        ("mine", "imdb", soft_rows(STEPS, status=every)),
    )
    rows = keyed(results, "upper").loc["pi_soft_nc"]
    assert rows.loc[("sst2", "mine"), ["n", "n_failed"]].tolist() == [2, 2]
    assert rows.loc[("imdb", "mine"), ["n", "n_failed"]].tolist() == [0, 3]
    assert rows.loc[("imdb", "mine"), ["value", "low", "p_value"]].isna().all()
    assert np.isnan(rows["value"][AVERAGE, "mine"])


@pytest.mark.parametrize("methods", [("mine", "other"), ("random",)])
def test_without_random_scores_or_another_method_there_are_no_rows(tmp_path, methods):
    assert advantage(tmp_path, *((m, "sst2", soft_rows(STEPS)) for m in methods)).empty


@pytest.mark.parametrize("grid", [GRID, (0.05, 0.5, 0.95), (0.2, 0.6)])
def test_half_curves_add_up_to_the_area(grid):
    grid = np.array(grid)
    lower, upper, difference = half_weights(grid)
    line = 3 * grid + 1  # a trapezoid is exact for it
    assert lower @ line == pytest.approx(3 * (grid[0] + 0.5) / 2 + 1)
    assert upper @ line == pytest.approx(3 * (grid[-1] + 0.5) / 2 + 1)
    assert difference == pytest.approx(upper - lower)
    values = np.random.default_rng(1).random(grid.size)
    whole = (0.5 - grid[0]) * (lower @ values) + (grid[-1] - 0.5) * (upper @ values)
    assert whole == pytest.approx(np.trapezoid(values, grid))


def test_one_sided_grids_have_points_but_no_halves(tmp_path):
    assert half_weights(np.array([0.6, 0.9])).shape == (0, 2)
    rows = [row for row in soft_rows(STEPS) if row["pi"] != 0.9]
    results = advantage(tmp_path, ("random", "sst2", rows), ("mine", "sst2", rows))
    assert set(results["part"]) == {"at"}
