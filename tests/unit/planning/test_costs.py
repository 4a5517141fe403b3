"""Predicted beside measured costs, recomputed in plain Python."""

from __future__ import annotations

import csv

import pytest

from pisoft.contracts import read_rows, write_rows
from pisoft.errors import BenchmarkError
from pisoft.planning.costs import benchmark_seconds, cost_rows
from pisoft.planning.plan import plan_run
from planning import run_of
from rooms import call, tabulate

CELLS = [f"small/{method}/{dataset}" for method in ("random", "saliency")
         for dataset in ("reviews", "stories")]  # fmt: skip
SECONDS = {"attribute": [3.25, 4.5, 5.0, 6.75], "evaluate_soft": [10.0, 20.5, 30.0, 40.25]}
HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def write_benchmark(results, rule, cell, seconds):
    path = results / "logs" / rule / f"{cell}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEADER}{seconds}\t0:00:01\t1\t1\t1\t1\t0\t0\t90\t1\n")
    return path


def soft_file(results, cell, facts):
    write_rows(results / "data/soft" / "dynamic" / f"{cell}.parquet", "soft", [], facts)


@pytest.fixture
def results(tmp_path):
    """Return a run's folder in which every job has left its time, and every cell its counts."""
    for cell, attributing, evaluating in zip(CELLS, *SECONDS.values(), strict=True):
        write_benchmark(tmp_path, "attribute", cell, attributing)
        write_benchmark(tmp_path, "evaluate_soft", f"dynamic/{cell}", evaluating)
        soft_file(tmp_path, cell, {"forwards": 1000, "tokens": 30_000})
    return tmp_path


def rows_of(results):
    rows = cost_rows(plan_run(run_of(), results), results)
    return {(row["rule"], row["model"]): row for row in rows}


def test_a_rules_jobs_are_added_up(results):
    rows = rows_of(results)
    assert list(rows) == [
        ("fetch_dataset", None), ("sample_dataset", None), ("build_prompts", "small"),
        ("generate", "small"), ("attribute", "small"), ("evaluate_soft", "small"),
    ]  # fmt: skip
    soft = rows["evaluate_soft", "small"]
    forwards = 2 * 4 * (3 + 1) + 3  # of a sample and step: 4 draws, 3 π and α = 1
    assert (soft["jobs"], soft["timed_jobs"], soft["counted_jobs"]) == (4, 4, 4)
    assert soft["forwards_low"] == soft["forwards_high"] == 2 * forwards * (40 + 7 * 3)
    assert soft["seconds"] == 10.0 + 20.5 + 30.0 + 40.25
    assert (soft["counted_forwards"], soft["counted_tokens"]) == (4000, 120_000)
    attributed = rows["attribute", "small"]
    assert attributed["forwards_high"] == 40 * 2 + 7 * (1 + 3), "random none, saliency 1 + steps"
    assert attributed["seconds"] == sum(SECONDS["attribute"])
    assert (attributed["counted_jobs"], attributed["counted_forwards"]) == (0, None)


def test_what_was_not_measured_is_a_gap_and_no_error(results):
    (results / "logs" / "attribute" / f"{CELLS[1]}.tsv").unlink()
    soft_file(results, CELLS[2], {})
    rows = rows_of(results)
    assert rows["attribute", "small"]["timed_jobs"] == 3
    assert rows["attribute", "small"]["seconds"] == 3.25 + 5.0 + 6.75
    assert rows["evaluate_soft", "small"]["counted_jobs"] == 3
    assert rows["evaluate_soft", "small"]["counted_forwards"] == 3000
    assert (rows["generate", "small"]["timed_jobs"], rows["generate", "small"]["seconds"]) == (
        0, None,
    )  # fmt: skip
    write_rows(results / "cost.parquet", "cost", rows.values(), {})


@pytest.mark.parametrize("text", ["", HEADER, "x\ty\n1\t2\n", HEADER.replace("\t", ",") + "1\n"])
def test_a_broken_benchmark_file_is_named(text, tmp_path):
    path = tmp_path / "job.tsv"
    assert benchmark_seconds(path) is None
    path.write_text(text)
    with pytest.raises(BenchmarkError, match=r"job\.tsv: .*column 's'.*; delete it"):
        benchmark_seconds(path)


def test_the_scripts_lead_from_benchmarks_to_the_table(results):
    output = results / "data/summary" / "cost.parquet"
    made = call(
        "summarise_cost", "--settings", run_of().to_json(), "--results", results,
        "--output", output,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert [row["rule"] for row in read_rows(output, "cost")][-1] == "evaluate_soft"
    settings = {"models": {"small": "Small"}, "datasets": {}, "methods": {}}
    files = tabulate("cost", settings, {"cost": output}, results)
    lines = {line["rule"]: line for line in csv.DictReader(files["csv"].open(encoding="utf-8"))}
    assert float(lines["evaluate_soft"]["forwards_ratio"]) == 4000 / (2 * 35 * (40 + 21))
    assert lines["attribute"]["model"] == "small"
    assert lines["generate"]["seconds"] == ""
    assert "Small" in files["html"].read_text(encoding="utf-8")
