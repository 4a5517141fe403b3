"""Tables and pages of a run with `preset: sparse`: their numbers and omissions."""

from __future__ import annotations

import csv
import html
from collections import defaultdict

import numpy as np
import pytest

from helpers.shared_runs import FINISHED, GRID
from pisoft.store.parquet import read_rows

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

SAMPLES = 9
CHANGES = {  # to the small run
    "draws: 2": "preset: sparse",
    "max_samples: 5": f"max_samples: {SAMPLES}",
    "methods: all": "methods: [random, saliency]",
    "sensitivity: false": "metric_validation: {noise: [1], permutations: 0}",
    "ranking: {answer_deletion: true}": "ranking: null",
}
LEFT_OUT = "not computed, because with <code>pi_per_step: 2</code> a single sample has no area"
CALIBRATED = ("auc_pi_soft_ns", "auc_pi_soft_nc")


@pytest.fixture(scope="module")
def results(module_project):
    """Return the results of a run with all tables and the explorer."""
    run_file = FINISHED
    for text, changed in CHANGES.items():
        assert text in run_file
        run_file = run_file.replace(text, changed)
    module_project.write("config/tiny.yaml", run_file)
    read = ("tables/pi_soft_auc/dynamic/toy.html", "explorer.html")  # one job writes all tables
    module_project.snakemake("--cores", "2", *(f"results/tiny/{name}" for name in read))
    return module_project.folder / "results/tiny"


def lines_of(results, name):
    with (results / f"tables/{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def page_of(results, name):
    page = (results / f"{name}.html").read_text(encoding="utf-8")
    return " ".join(html.unescape(page).split())


def measured(results, method):
    """Return π-Soft-NS and π-Soft-NC of each sample by π, from the draws of its one step."""
    values = defaultdict(list)
    for row in read_rows(results / f"data/soft/dynamic/toy/{method}/toy-sentiment.parquet", "soft"):
        if row["pi"] is not None and row["ns_distances"] is not None:
            kept, removed = (np.array(row[f"{one}_distances"]) for one in ("ns", "nc"))
            values["ns", row["pi"]].append(np.maximum(0, 1 - kept / row["h0"]).mean())
            values["nc", row["pi"]].append(removed.mean() / row["h0"])
    return values


def test_areas_and_curves_use_the_samples_measured_at_each_pi(results):
    table = {
        (line["metric"], line["method"]): line
        for line in lines_of(results, "pi_soft_auc/dynamic/toy")
    }
    curves = {
        (row["method"], row["metric"], row["position"]): row
        for row in read_rows(results / "data/summary/curves.parquet", "curves")
    }
    for method in ("random", "saliency"):
        values = measured(results, method)
        for metric in ("ns", "nc"):
            means = [np.mean(values[metric, pi]) for pi in GRID]
            line = table[f"auc_pi_soft_{metric}", method]
            assert float(line["value"]) == pytest.approx(np.trapezoid(means, GRID))
            assert float(line["low"]) < float(line["value"]) < float(line["high"])
            assert int(line["n"]) == SAMPLES
            for pi, mean in zip(GRID, means, strict=True):
                point = curves[method, f"pi_soft_{metric}", pi]
                assert point["value"] == pytest.approx(mean)
                assert point["n"] == len(values[metric, pi]) < SAMPLES
                assert point["low"] < mean < point["high"]
    assert sum(len(values["ns", pi]) for pi in GRID) == 2 * SAMPLES


def test_omitted_sample_statistics_are_explained(results):
    page = page_of(results, "tables/pi_soft_auc/dynamic/toy")
    assert f"Medians: {LEFT_OUT}" in page
    assert "too narrow" not in page
    sensitivity = page_of(results, "tables/sensitivity/dynamic/toy")
    assert "Median over samples (a step is measured at some retaining probabilities" in sensitivity
    assert f"Spearman's ρ with the AUCs: {LEFT_OUT}" in page_of(
        results, "tables/density/dynamic/toy"
    )
    shares = f"Shares between samples and of draws: {LEFT_OUT}"
    variance = page_of(results, "tables/variance_components/dynamic/toy")
    assert shares in variance
    assert "The deviation is that of areas completed from the 2 retaining probabilities" in variance
    explorer = page_of(results, "explorer")
    assert "Single samples have no curve and no AUC here: each step is measured at 2 of" in explorer


def test_datamodel_scores_have_values(results):
    lines = lines_of(results, "datamodel_scores/dynamic/toy")
    values = {line["method"]: line["value"] for line in lines if line["metric"] == "lds"}
    assert all(values[method] for method in ("random", "saliency"))


def test_metric_validation_uses_only_means(results):
    parts = defaultdict(set)
    for line in lines_of(results, "metric_validation/toy"):
        parts[line["metric"]].add(line["part"])
    assert parts["soft_ns"] > parts["auc_pi_soft_ns"] >= {"mean", "means_in_order"}
    at_one_pi = read_rows(results / "data/summary/metric_validation.parquet", "metric_validation")
    means = [r for r in at_one_pi if r["position"] is not None and r["part"] == "mean"]
    assert means
    assert {row["n"] < SAMPLES and row["n_failed"] == 0 for row in means} == {True}
    for metric in CALIBRATED:
        assert not [part for part in parts[metric] if "_over_" in part or part == "ladder"]
    shares = "Shares of samples and the noise order by the π-Soft metrics"
    assert f"{shares}: {LEFT_OUT}" in page_of(results, "tables/metric_validation/toy")
