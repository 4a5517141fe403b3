"""How far the evidence that was used is recovered, by length and depth."""

import numpy as np
import pytest

from helpers import script_runs
from pisoft.statistics.context_use import BY_CHANCE, DEPTHS, METRICS, fifth_of
from pisoft.statistics.metrics import DEPTH, TOKENS
from pisoft.store.parquet import read_rows, write_rows

TASKS = {"short": "needle", "long": "needle", "two": "conflict"}
LENGTHS = {"short": 40.0, "long": 160.0, "two": 40.0, "reviews": 20.0}
GENERATOR = np.random.default_rng(3)
METHODS = ("random", "mine")


@pytest.fixture(scope="module")
def samples():
    """Return rows of twelve samples of each dataset, of which every fourth was left out."""
    rows = []
    for dataset, tokens in LENGTHS.items():
        for number in range(12):
            depth = GENERATOR.random()
            beside = {DEPTH: depth, TOKENS: tokens, **dict.fromkeys(BY_CHANCE.values(), 0.1)}
            for method in METHODS:
                values = {metric: GENERATOR.random() for metric in METRICS} | beside
                rows += [
                    {
                        "model": "llama", "method": method, "dataset": dataset, "metric": metric,
                        "sample_id": f"{dataset}/{number}",
                        "value": value if number % 4 else None,
                        "status": "ok" if number % 4 else "answer_unchanged",
                    }
                    for metric, value in values.items()
                ]  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def results(samples, tmp_path_factory):
    """Return the results by their keys."""
    folder = tmp_path_factory.mktemp("context_use")
    write_rows(folder / "evidence_samples.parquet", "evidence_samples", samples, {})
    made = {"context_use": folder / "context_use.parquet"}
    settings = {"seed": 1, "resamples": 200, "tasks": TASKS}
    files = {"evidence_samples": [folder / "evidence_samples.parquet"]}
    script_runs.summarise("context_use", settings, files, made)
    keys = ("other", "dataset", "part", "position", "metric", "method")
    rows = read_rows(made["context_use"], "context_use")
    return {tuple(row[key] for key in keys): row for row in rows}


def mean_of(samples, dataset, metric, method, fifth=None):
    """Return the mean over samples of one dataset, and their number, by brute force."""
    of_method = [r for r in samples if r["dataset"] == dataset and r["method"] == method]
    depths = {r["sample_id"]: r["value"] for r in of_method if r["metric"] == DEPTH}
    values = [
        row["value"]
        for row in of_method
        if row["metric"] == metric and row["value"] is not None
        if fifth is None or abs(depths[row["sample_id"]] - fifth) <= 0.1
    ]
    return (np.mean(values) if values else None), len(values)


def test_means_over_all_samples_and_over_fifths_are_those_of_brute_force(samples, results):
    compared = 0
    for (task, dataset, part, position, metric, method), row in results.items():
        if dataset == "average":
            continue
        assert task == TASKS[dataset]
        expected, n = mean_of(samples, dataset, metric, method, position)
        assert (position is None) == (part == "all")
        assert row["value"] == pytest.approx(expected)
        assert row["n"] == n
        assert row["n_failed"] == (3 if part == "all" else 0)
        compared += part == "depth"
    assert compared > 30


def test_averages_are_over_the_datasets_of_a_generator(results):
    for metric in METRICS:
        for method in METHODS:
            lengths = [
                results["needle", name, "all", None, metric, method] for name in ("short", "long")
            ]
            average = results["needle", "average", "all", None, metric, method]
            assert average["value"] == pytest.approx(np.mean([one["value"] for one in lengths]))
            alone = results["conflict", "two", "all", None, metric, method]
            assert results["conflict", "average", "all", None, metric, method]["value"] == (
                pytest.approx(alone["value"])
            )


def test_datasets_without_planted_statements_are_left_out(results):
    assert {key[1] for key in results} == {*TASKS, "average"}


def test_lengths_are_in_perturbable_tokens(results):
    for dataset in TASKS:
        row = results[TASKS[dataset], dataset, "all", None, TOKENS, "mine"]
        assert row["value"] == LENGTHS[dataset]


def test_every_depth_is_in_the_nearest_fifth():
    for depth in np.linspace(0, 1, 101):
        assert abs(fifth_of(depth) - depth) <= 0.1 + 1e-9
    assert [fifth_of(depth) for depth in (0, 0.2, 0.999, 1)] == [0.1, 0.3, 0.9, 0.9]
    assert np.isnan(fifth_of(np.nan))
    assert len(DEPTHS) == 5
