"""Ranking of the controls by each metric, against counts by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from statsmodels.stats.proportion import proportion_confint

from helpers import script_runs
from helpers.result_rows import sample_rows
from helpers.soft_files import GRID, PER_DRAW, soft_rows, soft_summaries, soft_value
from pisoft.config.jobs.summaries import MetricValidationJob
from pisoft.statistics.controls import curve_values, sample_values
from pisoft.statistics.metric_validation import PAIRS, RESAMPLES, summaries, validation
from pisoft.statistics.reading import Files
from pisoft.store.parquet import write_rows

LADDER = ("oracle", "oracle-noise-0.5", "oracle-noise-2")
SETTINGS = MetricValidationJob(ladder=LADDER, middle=LADDER[1], seed=1)
NAMES = (*LADDER, "random", "anti-oracle", "position", "uniform", "first-token")


def values_of(n=40, seed=1, apart=2):
    """Controls that improve in steps, with noise that makes samples disagree."""
    noise = np.random.default_rng(seed).normal(size=(n, len(NAMES)))
    noisy = np.linspace(apart, 0, len(NAMES)) + noise
    return pd.DataFrame(np.round(noisy, 1), columns=list(NAMES))


def by_part(values, clusters=()):
    rows = validation(values, SETTINGS, ("cell",), dict(clusters)).to_dict("records")
    return {(row["part"], row["method"]): row for row in rows}


def test_ties_count_as_one_half():
    values = values_of()
    rows = by_part(values)
    named = {**values, "noisy": values["oracle-noise-0.5"]}
    for better, worse in PAIRS:
        pairs = list(zip(named[better], named[worse], strict=True))
        wins = sum(a > b for a, b in pairs) + sum(a == b for a, b in pairs) / 2
        row = rows[f"{better}_over_{worse}", ""]
        assert (row["value"], row["n"], row["n_failed"]) == (wins / 40, 40, 0)
        wilson = proportion_confint(wins, 40, method="wilson")
        assert (row["low"], row["high"]) == pytest.approx(wilson)


def test_the_ladder_score_is_kendalls_tau_per_sample():
    values = values_of() + np.arange(len(NAMES)) * 1e-6  # no ties, where τ-a and τ-b are the same
    expected = [kendalltau([2, 1, 0], row).statistic for row in values[list(LADDER)].to_numpy()]
    assert by_part(values)["ladder", ""]["value"] == pytest.approx(np.mean(expected))


def test_the_order_of_means_gives_the_samples_needed():
    values = values_of(n=30, apart=6)
    rows = by_part(values)
    generator = np.random.default_rng(7)
    chain = values[["oracle", "oracle-noise-0.5", "random", "anti-oracle"]].to_numpy()

    def share(n):
        means = chain[generator.integers(30, size=(20_000, n))].mean(axis=1)
        return (np.diff(means, axis=1) < 0).all(axis=1).mean()

    error = 4.5 * np.sqrt(0.25 / RESAMPLES)
    assert rows["means_in_order", ""]["value"] == pytest.approx(share(30), abs=error)
    needed = int(rows["samples_needed", ""]["value"])
    assert needed > 1
    assert share(needed) > 0.95 - error
    assert share(needed - 1) < 0.95 + error


def test_samples_of_a_single_cluster_are_never_enough():
    rows = by_part(values_of(n=5, apart=60), dict.fromkeys(range(5), "one"))
    assert np.isnan(rows["means_in_order", ""]["value"])
    assert np.isnan(rows["samples_needed", ""]["value"])


def test_sparse_samples_are_compared_by_points_and_not_by_areas(tmp_path):
    places = dict.fromkeys("abc", 0.1) | dict.fromkeys("defg", 0.4)
    rows = {name: soft_rows(dict.fromkeys(places, 1), seed) for seed, name in enumerate(NAMES)}
    for row in itertools.chain(*rows.values()):
        if row["pi"] and row["pi"] != places[row["sample_id"]]:
            row |= dict.fromkeys(PER_DRAW)
    files = Files({kind: [path] for kind, path in soft_summaries(tmp_path, rows).items()})
    sparse = SETTINGS.model_copy(update={"pi_per_step": 1})
    validated = pd.concat(summaries(files, sparse)["metric_validation"])
    single = validated["part"].str.contains("_over_|ladder")
    is_area = validated["metric"].str.startswith("auc_")
    assert is_area.any()
    assert not (single & is_area).any()
    assert (single & validated["metric"].isin(["soft_ns", "soft_nc"])).any()
    for pi, n in ((0.1, 3), (0.4, 4), (0.9, 0)):
        at = validated[(validated["position"] == pi) & (validated["metric"] == "pi_soft_nc")]
        assert set(at["n"]) == {n}
        assert set(at["n_failed"]) == {0}
        shares = at[at["part"] == "oracle_over_random"]
        oracle, control = (
            [soft_value(row, "nc") for row in rows[name] if row["pi"] == pi and row["nc_distances"]]
            for name in ("oracle", "random")
        )
        wins = [a > b for a, b in zip(oracle, control, strict=True)]
        assert shares["value"].tolist() == pytest.approx([np.mean(wins or np.nan)], nan_ok=True)


def test_samples_of_a_cluster_count_as_one():
    """Duplicates within a cluster add no information."""
    values = values_of(n=30, apart=6)
    doubled = pd.concat([values, values], keys=[*"ab"])
    doubled.index = [f"{copy}{sample}" for copy, sample in doubled.index]
    once, both = by_part(values), by_part(doubled, {name: name[1:] for name in doubled.index})
    naive = by_part(doubled)
    for key in (("ladder", ""), ("mean", "oracle"), ("oracle_over_noisy", "")):
        rows = [numbers[key] for numbers in (once, both, naive)]
        assert [row["value"] for row in rows] == pytest.approx([rows[0]["value"]] * 3)
        assert (rows[1]["n"], rows[1]["n_clusters"]) == (60, 30)
        first, clustered, independent = (row["high"] - row["low"] for row in rows)
        assert clustered == pytest.approx(first, rel=0.05), "Wilson's has Student's quantile"
        assert independent < 0.8 * first
    needed = [numbers["samples_needed", ""]["value"] for numbers in (once, both, naive)]
    assert needed[1] == 2 * needed[0] > needed[2]


def test_exact_orders_need_one_sample_and_reversed_ones_are_unreachable():
    exact = pd.DataFrame([np.arange(len(NAMES), 0, -1)] * 5, columns=list(NAMES))
    rows, reverse = by_part(exact), by_part(-exact)
    assert rows["samples_needed", ""]["value"] == 1
    assert np.isnan(reverse["samples_needed", ""]["value"])
    for part, best, worst in (("ladder", 1, -1), ("oracle_over_random", 1, 0)):
        assert (rows[part, ""]["value"], reverse[part, ""]["value"]) == (best, worst)
    assert rows["mean", "oracle"]["value"] == len(NAMES)


def test_samples_failed_for_a_control_are_counted_and_excluded():
    values = values_of(n=6)
    values.loc[2, "random"] = values.loc[4, "uniform"] = np.nan
    rows = by_part(values)
    for part in ("oracle_over_noisy", "oracle_over_uniform"):
        assert (rows[part, ""]["n"], rows[part, ""]["n_failed"]) == (5, 1)


@pytest.mark.parametrize("n", [0, 1])
def test_small_samples_have_no_interval_and_empty_ones_no_value(n):
    rows = by_part(values_of(n=n))
    assert np.isnan(rows["mean", "oracle"]["low"])
    for part in ("means_in_order", "samples_needed"):
        assert np.isnan(rows[part, ""]["value"]), "its resamples cannot differ"
    assert rows["ladder", ""]["n"] == n


@pytest.fixture
def files(tmp_path):
    """Files of samples: of random draws for soft metrics, in order for the others."""
    steps = {"a": 1, "b": 2, "c": 1}
    rows = {name: soft_rows(steps, seed=seed) for seed, name in enumerate(NAMES)}
    path = tmp_path / "ranking_samples.parquet"
    values = {name: [1 - index / 20] * 2 for index, name in enumerate(NAMES)}
    metrics = ("deletion_auc", "insertion_auc")
    ranked = [row for metric in metrics for row in sample_rows(values, metric, reason=None)]
    reason = {"status": "not_applicable", "reason": "open", "sample_id": None, "value": None}
    write_rows(path, path.stem, [*ranked, {**ranked[0], "dataset": "why", **reason}], {})
    return {**soft_summaries(tmp_path, rows), path.stem: path}


def test_every_part_of_every_metric_is_validated_with_higher_as_better(files, tmp_path):
    by_kind = Files({kind: [path] for kind, path in files.items()})
    samples, curves = list(sample_values(by_kind)), list(curve_values(by_kind))
    cells = [tuple(cell.values()) for cell, _ in (*samples, *curves)]
    assert len(cells) == len(set(cells))
    assert {(cell["metric"], cell["position"]) for cell, _ in curves} == {
        (metric, pi) for metric in ("pi_soft_ns", "pi_soft_nc") for pi in GRID
    }
    assert {cell["dataset"] for cell, _ in samples} == {"sst2"}, "`why` has no ranked samples"
    protocols = {cell["metric"]: cell["protocol"] for cell, _ in samples}
    assert (protocols["auc_pi_soft_ns"], protocols["deletion_auc"]) == ("dynamic", None)
    values = {cell["metric"]: metric_values for cell, metric_values in samples}
    assert (values["insertion_auc"] == -values["deletion_auc"]).all(axis=None)
    rows = script_runs.summary_rows("metric_validation", SETTINGS, files, tmp_path)
    assert len(rows) == (2 * len(GRID) + 6 + 2) * (len(PAIRS) + 3 + len(NAMES))
