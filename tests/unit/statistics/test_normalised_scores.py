"""Normalised scores, against ratios of means made by hand."""

import numpy as np
import pandas as pd
import pytest

import rooms
from pisoft.config.jobs import ResamplingJob
from pisoft.statistics.normalised_scores import normalised
from summarising import soft_rows, soft_summaries
from typesetting import needs_latex, typeset


def by_method(values):
    settings = ResamplingJob(seed=1, resamples=200)
    rows = normalised({("dynamic", "llama", "m"): values}, "sst2", settings)
    return rows.set_index("method")


def test_they_are_ratios_of_mean_differences_on_common_samples():
    generator = np.random.default_rng(3)
    random, oracle = generator.normal(0, 0.1, 50), generator.normal(1, 0.1, 50)
    values = pd.DataFrame({
        "random": random, "oracle": oracle, "half": (random + oracle) / 2, "same": random,
        "mine": oracle + generator.normal(0, 0.2, 50),
    })  # fmt: skip
    values.loc[:2, "mine"] = np.nan
    rows = by_method(values)
    for method, score in (("half", 0.5), ("same", 0.0)):
        numbers = rows.loc[method, ["value", "low", "high"]].tolist()
        assert numbers == pytest.approx([score] * 3, abs=1e-12), "each sample has the same score"
    mine, common = rows.loc["mine"], values.dropna()
    differences = common.sub(common["random"], axis="index").mean()
    assert mine["value"] == pytest.approx(differences["mine"] / differences["oracle"])
    assert mine["low"] < mine["value"] < mine["high"]
    assert mine[["n", "n_failed"]].tolist() == [47, 3]


@pytest.mark.filterwarnings("error")
def test_without_an_oracle_that_is_better_there_are_none():
    generator = np.random.default_rng(3)
    values = pd.DataFrame(generator.normal(size=(8, 3)), columns=["random", "oracle", "mine"])
    for changed in (values, values.assign(oracle=values["random"]), values[:1], values[:0]):
        row = by_method(changed).loc["mine"]
        assert row[["value", "low", "high"]].isna().all()
        assert row["n"] == len(changed)


@needs_latex
def test_the_table_orders_methods_by_its_first_column(tmp_path):
    scales = {"random": 0.8, "oracle": 0.1, "first": 0.3, "last": 0.6}  # of distances
    rows = {name: soft_rows({"a": 1, "b": 1, "c": 1}, seed=1) for name in scales}
    for name, scale in scales.items():
        for row in rows[name]:
            row["ns_distances"] = [scale * distance for distance in row["ns_distances"]]
    files = soft_summaries(tmp_path, rows)
    made = {"normalised_scores": tmp_path / "normalised_scores.parquet"}
    rooms.summarise("normalised_scores", ResamplingJob(seed=1, resamples=100), files, made)
    settings = {
        "models": {"llama": "Llama"},
        "datasets": {"sst2": "SST2"},
        "methods": {"random": "Random", "last": "Last", "first": "First"},
        "controls": {"oracle": "Oracle"},
    }
    paths = rooms.tabulate("normalised_scores", settings, made, tmp_path, model="llama")
    text = paths["html"].read_text(encoding="utf-8")
    assert text.index("dynamic routing") < text.index("First") < text.index("Last")
    typeset(paths["tex"])
