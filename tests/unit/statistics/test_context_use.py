"""Recovery of the evidence in use, by length and depth."""

import numpy as np
import pytest

from helpers import script_runs
from pisoft.statistics.context_use import BY_CHANCE, DEPTHS, METRICS, fifth_of
from pisoft.statistics.metrics import DEPTH, TOKENS
from pisoft.store.parquet import write_rows

TASKS = {"short": "needle", "long": "needle", "two": "conflict"}
LENGTHS = {"short": 40.0, "long": 160.0, "two": 40.0, "reviews": 20.0}
GENERATOR = np.random.default_rng(3)
METHODS = ("random", "mine")


@pytest.fixture(scope="module")
def samples():
    """Return rows of twelve samples per dataset, of which every fourth was excluded."""
    rows = []
    for dataset, tokens in LENGTHS.items():
        for number in range(12):
            depth = GENERATOR.random()
            beside = {DEPTH: depth, TOKENS: tokens, **dict.fromkeys(BY_CHANCE.values(), 0.1)}
            for method in METHODS:
                values = {metric: GENERATOR.random() for metric in METRICS} | beside
                row = {"model": "llama", "method": method, "dataset": dataset, "status": "ok"}
                row["sample_id"] = f"{dataset}/{number}"
                bad = {} if number % 4 else {"value": None, "status": "answer_unchanged"}
                rows += [{**row, "metric": m, "value": v, **bad} for m, v in values.items()]
    return rows


@pytest.fixture(scope="module")
def results(samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("context_use")
    path = folder / "evidence_samples.parquet"
    write_rows(path, path.stem, samples, {})
    settings = {"seed": 1, "resamples": 200, "tasks": TASKS}
    rows = script_runs.summary_rows("context_use", settings, {path.stem: [path]}, folder)
    keys = ("other", "dataset", "part", "position", "metric", "method")
    return {tuple(row[key] for key in keys): row for row in rows}


def mean_of(samples, dataset, metric, method, fifth=None):
    """Return the mean over samples of one dataset, and their number, by brute force."""
    method_rows = [r for r in samples if r["dataset"] == dataset and r["method"] == method]
    depths = {r["sample_id"]: r["value"] for r in method_rows if r["metric"] == DEPTH}
    values = [
        row["value"]
        for row in method_rows
        if row["metric"] == metric and row["value"] is not None
        if fifth is None or abs(depths[row["sample_id"]] - fifth) <= 0.1
    ]
    return np.mean(values or np.nan), len(values)


def test_numbers_equal_brute_force_and_need_a_planted_task(samples, results):
    assert {dataset for _, dataset, *_ in results} == {*TASKS, "average"}
    assert sum(part == "depth" for _, _, part, *_ in results) > 30
    for (task, dataset, part, position, metric, method), row in results.items():
        datasets = [name for name in TASKS if TASKS[name] == task and dataset in (name, "average")]
        numbers = [mean_of(samples, name, metric, method, position) for name in datasets]
        means = [mean for mean, n in numbers if n]
        assert row["value"] == pytest.approx(np.mean(means))
        assert row["n"] == sum(n for _, n in numbers)
        assert row["n_failed"] == (3 * len(datasets) if part == "all" else 0)
        assert (position is None) == (part == "all")


def test_depths_are_rounded_to_the_nearest_fifth():
    for depth in np.linspace(0, 1, 101):
        assert abs(fifth_of(depth) - depth) <= 0.1 + 1e-9
    assert [fifth_of(depth) for depth in (0, 0.2, 0.999, 1)] == [0.1, 0.3, 0.9, 0.9]
    assert np.isnan(fifth_of(np.nan))
    assert len(DEPTHS) == 5
