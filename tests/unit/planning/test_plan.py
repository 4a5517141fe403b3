"""The plan of a run: its jobs, one cell by hand, and the printed table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pisoft.attribution import load_method
from pisoft.config.cells import Cell
from pisoft.config.evaluation import DrawBudget
from pisoft.config.loading import load_run
from pisoft.config.models import ModelEntry
from pisoft.config.slices import PlanSlice
from pisoft.config.validation import read_yaml
from pisoft.planning import speed
from pisoft.planning.plan import LOADING_RULES, START_UP_WITH_MODEL, plan_run
from pisoft.planning.report import job_seconds, plan_text
from pisoft.planning.work import soft_forwards
from pisoft.units import duration, scaled
from planning import run_of

ROOT = Path(__file__).parents[3]
NOWHERE = Path("results/nowhere")
# Looking up a name would be the first thing that a connection does.
WITHOUT_NETWORK = """\
import runpy, socket, sys
def refuse(*arguments, **options):
    raise AssertionError("the network is asked")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
sys.argv = ["scripts/plan.py", *sys.argv[1:]]
sys.path.insert(0, "scripts")
try:
    runpy.run_path("scripts/plan.py", run_name="__main__")
finally:
    heavy = {"torch", "transformers", "datasets"} & set(sys.modules)
    print("heavy:", sorted(heavy))
"""


def plan_script(*arguments, code=WITHOUT_NETWORK):
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_the_papers_run_is_planned_without_network_weights_or_torch(tmp_path):
    made = plan_script("--configfile", "config/paper.yaml", "--throughput", "400")
    assert made.returncode == 0, made.stderr
    assert "heavy: []" in made.stdout
    cells = {line.split("  ")[0]: line.split() for line in made.stdout.splitlines()}
    large = 8  # methods of the 70B model, which has no fixed routing and no layer study
    shards = [5 + 2 + 5 + 2 + 2, 42 + 16 + 42 + 13 + 15]  # 2000, 2000, 2000, 200, 238 samples
    assert cells["evaluate_soft"][1] == str(2 * 2 * (13 + 8) * shards[0] + large * shards[1])
    assert cells["attribute"][1] == str(2 * (13 + 8) * shards[0] + large * shards[1]), "jobs"
    assert "400 TFLOP/s" in made.stdout
    assert "estimated" in made.stdout


@pytest.mark.parametrize("value", ["0", "-400", "fast", "nan"])
def test_a_speed_that_is_none_is_one_line(value):
    made = plan_script(f"--throughput={value}")
    assert made.returncode == 1
    assert made.stderr.strip().splitlines()[-1] == (
        f"error: throughput: '{value}' is not a number of TFLOP/s greater than 0"
    )
    assert "Traceback" not in made.stderr


def test_a_model_of_unknown_shape_is_one_line(tmp_path):
    run_file = tmp_path / "other.yaml"
    run_file.write_text(
        "run: other\nmodels: [mine]\ndatasets: [sst2]\nmethods: [random]\ncatalogue:\n  models:\n"
        "    mine: {label: Mine, source: {kind: hub, repository: no/where}}\n"
    )
    made = plan_script("--configfile", str(run_file), "--throughput", "1")
    assert made.returncode == 1
    (line,) = made.stderr.strip().splitlines()
    assert line.startswith("error: model 'mine': source.shape: not set, ")


def paper() -> PlanSlice:
    file = ROOT / "config/paper.yaml"
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        return PlanSlice.of(load_run(read_yaml(file), [file], ROOT / "config", load_method))
    finally:
        os.chdir(before)


def test_a_cell_of_the_papers_run_by_hand(monkeypatch, tmp_path):
    """Llama-3.1-8B on IMDb, whatever the method: 2000 samples of 44 + 371 + 5 tokens."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    settings = paper()
    settings.models["llama-3.1-8b-instruct"].shards["imdb"] = None
    jobs = {job.rule + "/" + job.cell: job for job in plan_run(settings, NOWHERE).jobs}
    job = jobs["evaluate_soft/dynamic/llama-3.1-8b-instruct/saliency/imdb"]
    forwards, tokens, prefix = 2 * 15 * (19 + 1) + 3, 371 + 5, 44
    assert job.low == job.high
    noise = 8 * (2 * (19 + 1) + 3)  # a draw in float32 of a step of blocks 0, 1, 2, 4, …, 64
    assert job.low.forwards == 2000 * forwards + noise
    assert job.low.tokens == (2000 * forwards + noise) * tokens
    of_layer, of_block = 4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 14336, 3 * 4096 * 14336
    one = (
        2 * 32 * of_layer * tokens
        - 2 * of_block * (tokens - 2)
        + 2 * 128256 * 4096
        + 2 * 32 * 32 * 128 * tokens * (2 * prefix + tokens + 1)
    )
    read = 2 * 32 * of_layer * prefix + 2 * 32 * 32 * 128 * prefix * (prefix + 1)
    assert job.low.flops == pytest.approx((2000 * forwards + noise) * one + 2008 * read, rel=1e-12)
    weights = (32 * of_layer + 2 * 128256 * 4096) * 2
    assert weights == pytest.approx(16.06e9, rel=1e-3), "the 16 GB of the published weights"
    assert weights < job.memory < 1.3 * weights
    assert job.disk == 2000 * 20 * (2 * 3 * 15 * 4 + 60)
    fixed = jobs["evaluate_soft/fixed/llama-3.1-8b-instruct/saliency/imdb"]
    assert fixed.low == job.low
    assert fixed.memory > job.memory, "fixed routing records attention"


def test_scores_made_elsewhere_cost_their_evaluation_alone():
    methods = {**run_of().model_dump()["methods"], "random": {"method": None, "options": {}}}
    whole, given = (plan_run(run_of(**made), NOWHERE).jobs for made in ({}, {"methods": methods}))
    assert [job for job in whole if job not in given] == [
        job for job in whole if job.rule == "attribute" and "/random/" in job.cell
    ]
    assert set(given) < set(whole)


def test_steps_that_16_bit_models_evaluate_in_float32_are_planned():
    models = run_of().model_dump()["models"]
    models["small"] |= {"dtype": "bfloat16"}
    plain, half = (
        [job for job in plan_run(run_of(models=of), NOWHERE).jobs if job.rule == "evaluate_soft"]
        for of in (run_of().model_dump()["models"], models)
    )
    more = [job.low.forwards - other.low.forwards for job, other in zip(half, plain, strict=True)]
    one = soft_forwards(grid=3, draws=1)
    assert more == pytest.approx([3 * one, one] * 2)  # 40 samples in blocks 0, 1, 2; 7 in block 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_shards_do_the_work_of_the_whole(dtype):
    models = run_of().model_dump()["models"]
    models["small"] |= {"dtype": dtype}
    whole = plan_run(run_of(models=models), NOWHERE)
    models["small"]["shards"]["reviews"] = (40, 16)
    cut = plan_run(run_of(models=models), NOWHERE)
    of_reviews = [job for job in cut.jobs if "/random/reviews" in job.cell]
    assert [job.cell for job in of_reviews if job.rule == "evaluate_soft"] == [
        f"dynamic/small/random/reviews/{part}" for part in ("0-16", "16-32", "32-40")
    ]
    for measure in ("forwards", "tokens", "flops"):
        totals = [sum(getattr(job.low, measure) for job in plan.jobs) for plan in (whole, cut)]
        assert totals[0] == pytest.approx(totals[1], rel=1e-12)
    assert cut.lengths == whole.lengths


def rules_of(plan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for job in plan.jobs:
        counts[job.rule] = counts.get(job.rule, 0) + 1
    return counts


def test_every_section_of_a_run_adds_its_jobs():
    counts = rules_of(plan_run(run_of(), NOWHERE))
    assert counts["attribute"] == counts["evaluate_soft"] == 2 * 2
    assert counts["build_prompts"] == counts["generate"] == 2
    assert "train_model" not in counts
    both = rules_of(plan_run(run_of(protocols=["dynamic", "fixed"]), NOWHERE))
    assert both["evaluate_soft"] == 2 * counts["evaluate_soft"]
    inspected = {"inputs": [Cell("dynamic", "", "small", "", "", "reviews")], "main": []}
    looked = plan_run(run_of(cells=inspected, inspections=6), NOWHERE)
    (job,) = (job for job in looked.jobs if job.rule == "inspect_inputs")
    assert job.cell == "dynamic/small/reviews"
    assert job.low.forwards == 40 * (1 + 3 * 6)
    ranked = plan_run(run_of(ranking={"steps": 20, "operator": "remove"}), NOWHERE)
    cells = [job for job in ranked.jobs if job.rule == "evaluate_ranking"]
    assert [job.cell for job in cells] == ["small/random/reviews", "small/saliency/reviews"]
    assert cells[0].low.forwards == 40 * 39


def test_a_twin_on_shuffled_labels_is_planned_as_its_models_own_training():
    models = run_of().model_dump()["models"]
    models["small"]["source"] = {
        "kind": "trained", "architecture": "llama", "datasets": ["reviews"],
    }  # fmt: skip
    shuffled = Cell("", "", "small", "shuffled-labels", "saliency", "reviews")
    plan = plan_run(run_of(models=models, cells={"main": [], "sanity_checks": [shuffled]}), NOWHERE)
    first, second = (job for job in plan.jobs if job.rule == "train_model")
    assert (first.cell, first.model) == ("small", "small")
    assert second == replace(first, cell="small@shuffled-labels")


def test_a_budget_of_draws_gives_two_limits(monkeypatch):
    settings = run_of()
    budget = DrawBudget(target_half_width=0.1, max=15)
    budgeted = settings.evaluation.model_copy(update={"draws": budget})
    plan = plan_run(settings.model_copy(update={"evaluation": budgeted}), NOWHERE)
    job = next(job for job in plan.jobs if job.rule == "evaluate_soft")
    assert job.low.forwards == 40 * soft_forwards(3, 1) == 40 * 11
    assert job.high.forwards == 40 * soft_forwards(3, 15) == 40 * 123
    assert job.low.flops < job.high.flops
    text = plan_text(plan, speed.given_speed(1e12, {"small": None}))
    both = sum((40 * 11, 7 * 3 * 11)) * 2, sum((40 * 123, 7 * 3 * 123)) * 2
    line = next(line for line in text.splitlines() if line.startswith("evaluate_soft"))
    assert f"{scaled(both[0])} to {scaled(both[1])}" in line


def test_totals_are_the_sums_of_the_lines():
    plan = plan_run(run_of(), NOWHERE)
    given = speed.given_speed(1e9, {"small": None})
    lines = plan_text(plan, given).splitlines()
    total = re.split(r"\s{2,}", next(line for line in lines if line.startswith("total")))
    assert total[1] == str(len(plan.jobs))
    assert total[2] == scaled(sum(job.low.forwards for job in plan.jobs))
    seconds = sum(job.start_up + job.low.flops / 1e9 for job in plan.jobs)
    assert total[5] == duration(seconds)
    assert total[6] == duration(max(job.start_up + job.high.flops / 1e9 for job in plan.jobs))
    assert total[7] == "–", "no model on a GPU"
    assert total[8] == scaled(max(job.memory or 0 for job in plan.jobs), "B")
    attributed = next(job for job in plan.jobs if job.rule == "attribute")
    assert job_seconds(attributed, 5e9, given) == pytest.approx(START_UP_WITH_MODEL + 5, abs=0.01)


def test_gpu_hours_are_those_of_jobs_that_hold_a_gpu():
    plan = plan_run(run_of(), NOWHERE)
    given = speed.given_speed(1e5, {"small": None})
    text = plan_text(plan, given, ["small"]).splitlines()
    lines = {(row := re.split(r"\s{2,}", line))[0]: row for line in text}
    seconds = {}
    for job in plan.jobs:
        seconds[job.rule] = seconds.get(job.rule, 0) + job.start_up + job.high.flops / 1e5
    hours = {rule: seconds[rule] / 3600 for rule in LOADING_RULES if rule in seconds}
    assert {rule: float(lines[rule][7]) for rule in hours} == pytest.approx(hours, rel=0.05)
    assert float(lines["total"][7]) == pytest.approx(sum(hours.values()), rel=0.05)
    assert lines["build_prompts"][7] == lines["fetch_dataset"][7] == "–"


def test_files_of_a_quantised_model_are_read_as_they_were_published():
    models = run_of().model_dump()["models"]
    plain = plan_run(run_of(models=models), NOWHERE)
    models["small"]["quantization"] = "nf4"
    quantised = plan_run(run_of(models=models), NOWHERE)
    for job, smaller in zip(plain.jobs, quantised.jobs, strict=True):
        assert (job.read, job.start_up) == (smaller.read, smaller.start_up)
        assert job.memory is None or smaller.memory < job.memory
    assert any(job.read for job in plain.jobs)


def test_the_machine_is_measured_once_for_each_type(monkeypatch):
    asked = []

    def rate(dtype, device, threads):
        asked.append((dtype, device, threads))
        return {"float32": 1e11, "bfloat16": 3e11}[dtype]

    monkeypatch.setattr(speed, "matrix_product_rate", rate)
    source = {"kind": "hub", "repository": "no/where"}
    models = {
        name: ModelEntry(
            label=name, source=source, dtype=dtype, device="cpu", resources={"threads": 3}
        )
        for name, dtype in {"a": "float32", "b": "bfloat16", "c": "float32"}.items()
    }
    measured = speed.measured_speed(models)
    assert asked == [("float32", "cpu", 3), ("bfloat16", "cpu", 3)]
    assert measured.rates == {"a": 0.5e11, "b": 1.5e11, "c": 0.5e11}
    assert len(measured.explanations) == 2


def test_the_rate_of_matrix_products_counts_them(monkeypatch):
    """A clock that moves by a quarter of a second: four products of the given width in a second."""
    ticks = iter(range(100))
    monkeypatch.setattr(speed, "perf_counter", lambda: next(ticks) / 4)
    monkeypatch.setitem(speed.WIDTH, "cpu", 16)
    assert speed.matrix_product_rate("float32", "cpu", 1) == 4 * 2 * 16**3


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (999, "999"), (999.9, "1.00 k"), (0.5, "0.50"), (12.34, "12.3"),
     (1234, "1.23 k"), (5.5e11, "550 G"), (1.25e21, "1.25 Z")],
)  # fmt: skip
def test_numbers_have_three_digits_and_a_prefix(value, text):
    assert scaled(value) == text
    assert scaled(value, "B").replace("B", "").strip() == text.strip()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.5 s"), (119, "119 s"), (180, "3 min"), (7200, "2 h"), (3.6e6, "1000 h")],
)
def test_times_are_in_the_unit_that_suits_them(seconds, text):
    assert duration(seconds) == text
