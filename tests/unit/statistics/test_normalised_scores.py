"""Normalised scores against ratios of means by hand."""

import numpy as np
import pandas as pd
import pytest

from helpers import script_runs
from helpers.soft_files import soft_rows, soft_summaries
from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.statistics.normalised_scores import normalised


def by_method(values, clusters=None):
    settings = ResamplingJob(seed=1, resamples=200)
    rows = normalised({("dynamic", "llama", "m"): values}, "sst2", settings, clusters or {})
    return rows.set_index("method")


def test_normalised_scores_are_ratios_of_mean_differences():
    generator = np.random.default_rng(3)
    random, oracle = generator.normal(0, 0.1, 50), generator.normal(1, 0.1, 50)
    values = pd.DataFrame({
        "random": random, "oracle": oracle, "half": (random + oracle) / 2, "same": random,
        "mine": oracle + generator.normal(0, 0.2, 50),
    })  # fmt: skip
    values.loc[:2, "mine"] = np.nan
    rows = by_method(values)
    numbers = rows.loc[["half", "same"], ["value", "low", "high"]].to_numpy()
    assert numbers == pytest.approx(np.array([[0.5] * 3, [0] * 3]), abs=1e-12), "in each sample"
    mine, common = rows.loc["mine"], values.dropna()
    differences = common.sub(common["random"], axis="index").mean()
    assert mine["value"] == pytest.approx(differences["mine"] / differences["oracle"])
    assert mine["low"] < mine["value"] < mine["high"]
    assert mine[["n", "n_failed"]].tolist() == [47, 3]


@pytest.mark.filterwarnings("error")
def test_normalised_scores_need_an_oracle_better_than_random():
    generator = np.random.default_rng(3)
    values = pd.DataFrame(generator.normal(size=(8, 3)), columns=["random", "oracle", "mine"])
    for changed in (values, values.assign(oracle=values["random"]), values[:1], values[:0]):
        row = by_method(changed).loc["mine"]
        assert row[["value", "low", "high"]].isna().all()
        assert row["n"] == len(changed)


def test_a_single_cluster_shows_no_better_oracle():
    values = pd.DataFrame({"random": np.arange(8.0), "oracle": np.arange(8.0) + 1, "mine": 5.0})
    row = by_method(values, dict.fromkeys(values.index, "one")).loc["mine"]
    assert row[["value", "low", "high"]].isna().all()
    assert row[["n", "n_clusters"]].tolist() == [8, 1]


def test_the_summary_has_every_method_with_an_oracle(tmp_path):
    rows = {name: soft_rows({"a": 1, "b": 1}) for name in ("random", "oracle", "mine")}
    settings, files = ResamplingJob(seed=1, resamples=100), soft_summaries(tmp_path, rows)
    results = script_runs.summary_rows("normalised_scores", settings, files, tmp_path)
    keys = {(row["protocol"], row["dataset"], row["method"]) for row in results}
    assert keys == {("dynamic", "sst2", "mine")}
    counts = {row["metric"]: row["n"] for row in results}
    assert counts.pop("auc_low_pi_soft_ns") == counts.pop("auc_low_pi_soft_nc") == 0
    assert set(counts.values()) == {2}
