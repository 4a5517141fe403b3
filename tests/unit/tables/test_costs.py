"""Predicted beside measured costs, recomputed in plain Python, and their table."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import pisoft
from pisoft.contracts import read_rows, write_rows
from pisoft.errors import BenchmarkError
from pisoft.planning.costs import benchmark_seconds, cost_rows
from pisoft.planning.plan import plan_run
from pisoft.tables.cost import WITHOUT_MODEL, cost_table, with_ratios
from pisoft.units import NOTHING
from planning import run_of

SCRIPTS = Path(pisoft.__file__).parents[1]
CELLS = [f"small/{method}/{dataset}" for method in ("random", "saliency")
         for dataset in ("reviews", "stories")]  # fmt: skip
SECONDS = {"attribute": [3.25, 4.5, 5.0, 6.75], "evaluate_soft": [10.0, 20.5, 30.0, 40.25]}
HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def write_benchmark(results, rule, cell, seconds):
    path = results / "benchmarks" / rule / f"{cell}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEADER}{seconds}\t0:00:01\t1\t1\t1\t1\t0\t0\t90\t1\n")
    return path


def soft_file(results, cell, facts):
    write_rows(results / "soft" / "dynamic" / f"{cell}.parquet", "soft", [], facts)


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
    (results / "benchmarks" / "attribute" / f"{CELLS[1]}.tsv").unlink()
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


# Table ----------------------------------------------------------------------------------------


def row(rule, model, **changes):
    return {
        "rule": rule, "model": model, "jobs": 2,
        "forwards_low": 500.0, "forwards_high": 500.0, "tokens_low": 4000.0,
        "tokens_high": 4000.0, "flops_low": 6e12, "flops_high": 6e12,
        "timed_jobs": 2, "seconds": 30.0,
        "counted_jobs": 2, "counted_forwards": 505.0, "counted_tokens": 4200.0,
    } | changes  # fmt: skip


ROWS = [
    row("fetch_dataset", None, forwards_low=0.0, forwards_high=0.0, tokens_low=0.0,
        tokens_high=0.0, flops_low=0.0, flops_high=0.0, counted_jobs=0, counted_forwards=None,
        counted_tokens=None, seconds=1.5),
    row("attribute", "llama", timed_jobs=1, counted_jobs=0, counted_forwards=None,
        counted_tokens=None),
    row("evaluate_soft", "llama"),
    row("evaluate_soft", "mistral", forwards_low=100.0, tokens_low=800.0, flops_low=1e12,
        counted_tokens=2000.0),
    row("evaluate_ranking", "mistral", counted_jobs=1),
]  # fmt: skip
MODELS = {"mistral": "Mistral", "llama": "Llama"}


def table(rows=ROWS):
    return cost_table(pd.DataFrame(rows), models=MODELS)


def texts(block):
    return {line.label: [entry.text for entry in line.entries] for line in block.rows}


def test_ratios_and_speeds_are_those_of_the_numbers():
    found = with_ratios(pd.DataFrame(ROWS)).set_index(["model", "rule"])
    exact = found.loc["llama", "evaluate_soft"]
    assert exact["forwards_ratio"] == pytest.approx(505 / 500)
    assert exact["tokens_ratio"] == pytest.approx(4200 / 4000)
    assert exact["flops_per_second"] == pytest.approx(6e12 / 30)
    budgeted = found.loc["mistral", "evaluate_soft"]
    assert budgeted["flops_per_second"] == pytest.approx(6e12 * 2000 / 4000 / 30)
    assert found["flops_per_second"].isna().tolist() == [True, True, False, False, False]
    assert found["forwards_ratio"].isna().tolist() == [True, True, False, False, True]


def test_models_are_blocks_in_their_order_and_gaps_are_dashes():
    made = table()
    assert [block.title for block in made.blocks] == ["Mistral", "Llama", WITHOUT_MODEL]
    mistral, llama, all_models = map(texts, made.blocks)
    assert llama["evaluate_soft"] == [
        "2", "500", "505", "1.010", "4.00 k", "4.20 k", "1.050", "6.00 T", "30.0", "200 G",
    ]  # fmt: skip
    assert llama["attribute"][1:4] == ["500", NOTHING, NOTHING]
    assert llama["attribute"][-2:] == [NOTHING, NOTHING], "a part of the times is no time"
    assert mistral["evaluate_soft"][1] == "100 to 500"
    assert mistral["evaluate_ranking"][2:4] == [NOTHING, NOTHING]
    assert all_models["fetch_dataset"] == ["2", *[NOTHING] * 7, "1.5", NOTHING]
    notes = " ".join(made.notes)
    assert "no time is given: attribute (Llama): 1 of 2." in notes
    assert "no count is given: evaluate_ranking (Mistral): 1 of 2." in notes
    assert "draw budget" in notes
    assert "draw budget" not in " ".join(table(ROWS[:3]).notes)


def call(script, *arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def test_the_scripts_lead_from_benchmarks_to_the_table(results):
    output = results / "summary" / "cost.parquet"
    made = call(
        "summarise_cost.py", "--settings", run_of().to_json(), "--results", results,
        "--output", output,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert [row["rule"] for row in read_rows(output, "cost")][-1] == "evaluate_soft"
    files = {suffix: results / f"cost.{suffix}" for suffix in ("csv", "tex", "html")}
    settings = json.dumps({"models": {"small": "Small"}, "datasets": {}, "methods": {}})
    drawn = call(
        "tabulate_cost.py", "--settings", settings, "--cost", output,
        *(part for suffix, path in files.items() for part in (f"--{suffix}", path)),
    )  # fmt: skip
    assert drawn.returncode == 0, drawn.stderr
    lines = {line["rule"]: line for line in csv.DictReader(files["csv"].open(encoding="utf-8"))}
    assert float(lines["evaluate_soft"]["forwards_ratio"]) == 4000 / (2 * 35 * (40 + 21))
    assert lines["attribute"]["model"] == "small"
    assert lines["generate"]["seconds"] == ""
    assert "Small" in files["html"].read_text(encoding="utf-8")
