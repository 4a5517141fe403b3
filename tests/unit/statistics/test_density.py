"""Densities against closed forms, and correlations within samples against SciPy."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from helpers import explained_rows, script_runs
from helpers.result_rows import sample_rows
from pisoft.faithfulness.scores import normalise
from pisoft.statistics.density import correlate, gini, rank_correlations
from pisoft.statistics.metrics import AVERAGE
from pisoft.store.parquet import read_rows, write_rows

GENERATOR = np.random.default_rng(7)
METHODS = ("random", "saliency", "mine", "attention")
SAMPLES = ("s0", "s1", "s2", "s3")
AREAS = {(m, s): GENERATOR.random() for m in METHODS for s in SAMPLES}
RAW = {(m, s): GENERATOR.random(9) ** (1 + 2 * n) for n, m in enumerate(METHODS) for s in SAMPLES}
SETTINGS = {"scope": "content", "normalisation": "minmax", "seed": 1, "resamples": 200}


def summarised(folder, methods=METHODS, missing=(), unexplained=(), **changed):
    raw = {m: {s: [None if (m, s) in unexplained else RAW[m, s]] for s in SAMPLES} for m in methods}
    samples = folder / "soft_samples.parquet"
    areas = {m: [None if (m, s) in missing else AREAS[m, s] for s in SAMPLES] for m in methods}
    metrics = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "identity")
    rows = [row for name in metrics for row in sample_rows(areas, name, protocol="dynamic")]
    write_rows(samples, "soft_samples", rows, {})
    made = {kind: folder / f"{kind}.parquet" for kind in ("density", "density_correlations")}
    files = explained_rows.write_scores(folder, raw, 9) | {"soft_samples": samples}
    script_runs.summarise("density", SETTINGS | changed, files, made)
    return [pd.DataFrame(read_rows(path, kind)) for kind, path in made.items()]


def scores(method, sample):
    return normalise(RAW[method, sample].astype(np.float32), "minmax")


def plain_gini(values):
    """Mean absolute difference of all pairs, over twice the mean."""
    return np.abs(values[:, None] - values).mean() / (2 * values.mean())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5] * 4, 0),
        ([0.0] * 3, 0),
        ([0, 0, 1, 0], 3 / 4),
        (np.linspace(0, 1, 100_001), 1 / 3),
        (GENERATOR.random(50), None),
    ],
)
def test_gini_equals_closed_forms_and_mean_pair_differences(values, expected):
    values = np.asarray(values, dtype=float)
    expected = plain_gini(values) if expected is None else expected
    assert gini(values) == pytest.approx(expected, abs=1e-4)


def test_densities_are_means_over_samples(tmp_path):
    density, _ = summarised(tmp_path, unexplained=[("mine", "s1")])
    rows = density.set_index(["dataset", "method", "metric"])
    measures = (("mean_score", np.mean), ("gini", plain_gini))
    for (name, measure), method in itertools.product(measures, METHODS):
        values = [measure(scores(method, s)) for s in SAMPLES if (method, s) != ("mine", "s1")]
        expected = [np.mean(values), len(values), 4 - len(values)]
        for dataset in ("sst2", AVERAGE):
            numbers = rows.loc[(dataset, method, name), ["value", "n", "n_failed"]].tolist()
            assert numbers == pytest.approx(expected)


def test_correlations_are_within_samples_over_methods_with_both_numbers(tmp_path):
    missing = [("attention", "s2"), *((m, "s3") for m in METHODS[1:])]
    _, correlations = summarised(tmp_path, missing=missing)
    rows = correlations.set_index(["metric", "dataset", "other", "part"])
    for part, methods in (("all", METHODS), ("without random", METHODS[1:])):
        rhos = [
            spearmanr(*zip(*((scores(m, s).mean(), AREAS[m, s]) for m in among), strict=True))[0]
            for s in SAMPLES
            if len(among := [m for m in methods if (m, s) not in missing]) >= 3
        ]
        row = rows.loc["auc_pi_soft_nc", "sst2", "mean_score", part]
        assert row["value"] == pytest.approx(np.mean(rhos))
        assert (row["n"], row["n_failed"]) == (len(rhos), 4 - len(rhos))
    assert (rows["p_adjusted"] >= rows["p_value"]).all()


def test_rank_scores_have_equal_density_and_no_correlation():
    """Their means differ only by rounding, which depends on the order of the tokens."""
    raw = np.random.default_rng(2).random((4, 28))
    method_scores = {m: normalise(one, "rank") for m, one in zip(METHODS, raw, strict=True)}
    assert len({scores.mean() for scores in method_scores.values()}) > 1
    density = {(m, "mean_score"): [scores.mean()] for m, scores in method_scores.items()}
    density |= {(m, "gini"): [gini(scores)] for m, scores in method_scores.items()}
    names = ["method", "metric"]
    areas = {"protocol": "dynamic", "metric": "soft_ns", "method": METHODS, "value": [1, 3, 2, 4]}
    correlations = correlate(
        pd.DataFrame(density, ["s0"]).rename_axis(columns=names), pd.DataFrame(areas, ["s0"] * 4)
    )
    assert correlations.shape == (1, 4)
    assert correlations.isna().all(axis=None)


def test_correlations_handle_ties_two_methods_and_constants():
    one = np.array([[1, 2, 2, 3], [1, 2, np.nan, np.nan], [1, 1, 1, 1]])
    other = np.array([[1, 3, 2, 4], [1, 2, 3, 4], [1, 2, 3, 4]])
    expected = [spearmanr(one[0], other[0])[0], np.nan, np.nan]
    assert rank_correlations(one, other) == pytest.approx(expected, nan_ok=True)


def test_missing_areas_reduce_the_correlations(tmp_path):
    density, correlations = summarised(tmp_path, METHODS[1:], pi_per_step=2)
    assert set(correlations["part"]) == {"without random"}
    assert set(correlations["metric"]) == {"soft_ns"}
    assert "random" not in set(density["method"])
