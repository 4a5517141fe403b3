"""The plan of a run: its jobs, one cell by hand, and the printed table."""

from __future__ import annotations

import copy
import math
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from helpers.planned_run import RUN, WEIGHTS, run_of, sample
from pisoft.attribution import load_method
from pisoft.config.loading import load_run
from pisoft.config.models import TrainedModel
from pisoft.config.validation import read_yaml
from pisoft.cost.lengths import BEFORE, BEHIND
from pisoft.cost.plan import (
    FLOAT32_TIME,
    LOADING_RULES,
    QUANTISING_SPEED,
    READING_SPEED,
    costs_by_pi,
    plan_run,
)
from pisoft.cost.report import flops_per_second, plan_text
from pisoft.cost.sizes import token_bytes
from pisoft.cost.tokens import soft_tokens
from pisoft.errors import BenchmarkError
from pisoft.formatting import duration, scaled

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


@pytest.fixture(scope="module")
def paper():
    """The plan of the paper's run."""
    file = ROOT / "config/paper.yaml"
    return plan_run(load_run(read_yaml(file), [file], ROOT / "config", load_method), NOWHERE)


def rows_of(text):
    """Return the cells of each line of a printed plan."""
    return [re.split(r"\s{2,}", line) for line in text.splitlines()]


def test_the_papers_run_is_planned_without_network_weights_or_torch():
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    options = ["--configfile", "config/paper.yaml", "--throughput", "400"]
    command = [sys.executable, "-c", WITHOUT_NETWORK, *options]
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert "heavy: []" in finished.stdout
    cells = {line.split("  ")[0]: line.split() for line in finished.stdout.splitlines()}
    for rule in ("attribute", "evaluate_soft", "evaluate_ranking"):
        number, unit = cells[rule][-3:-1]
        assert float(number) <= 30
        assert unit == "min"
    assert "400 TFLOP/s" in finished.stdout
    assert "estimated" in finished.stdout


def test_jobs_of_the_70b_model_end_within_half_an_hour_and_rarely_load(paper):
    """Loading takes less than a tenth, except in generation, which needs only ten minutes."""
    jobs = [job for job in paper.jobs if "70b" in (job.model or "") and job.rule in LOADING_RULES]
    assert max(paper.seconds(job, 4e14) for job in jobs) <= 30 * 60
    stages = {rule: [job for job in jobs if job.rule == rule] for rule in LOADING_RULES}
    generate, convert = stages.pop("generate"), stages.pop("convert_model")
    assert sum(paper.seconds(job, 4e14) - job.start_up for job in generate) < 10 * 60
    stages["before the evaluation"] = [
        *generate, *convert, *stages["attribute"], *stages["evaluate_ranking"],
    ]  # fmt: skip
    for stage_jobs in filter(None, stages.values()):
        loading = sum(job.start_up for job in stage_jobs)
        assert loading < 0.1 * sum(paper.seconds(job, 4e14) for job in stage_jobs)


@pytest.mark.parametrize("value", ["0", "fast", "nan"])
def test_an_invalid_speed_is_refused(value):
    with pytest.raises(BenchmarkError) as error:
        flops_per_second(value)
    assert str(error.value) == f"throughput: '{value}' is not a number of TFLOP/s greater than 0"


def test_a_model_of_unknown_size_must_be_fetched_first(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    run = run_of({"models.small": {"source": {"kind": "hub", "repository": "no/where"}}})
    message = "^model 'small': source.parameters: not set; `make fetch CONFIG=…` downloads the mod"
    with pytest.raises(BenchmarkError, match=message):
        plan_run(run, NOWHERE)
    cached, commit = tmp_path / "models--no--where", "0" * 40
    for path in (cached / "refs/main", cached / f"snapshots/{commit}/model.safetensors"):
        path.parent.mkdir(parents=True)
    (cached / "refs/main").write_text(commit)
    save_file({"weights": np.zeros((30, 100))}, path)
    line = f"Weights: small {scaled(3000)} ({scaled(12e3, 'B')} on its device)."
    assert line in plan_text(plan_run(run, NOWHERE), None)


def test_a_cell_of_the_papers_run_matches_a_calculation_by_hand(paper):
    """Llama-3.1-8B on IMDb, for any method: 168 samples of 40 + 371 + 5 tokens a shard.

    One step of blocks 0, 1, 2, 4, 8, 16 and 32 of 6 samples is also evaluated in float32.
    """
    jobs = {job.rule + "/" + job.cell: job for job in paper.jobs}
    first, second = (
        jobs[f"evaluate_soft/dynamic/llama-3.1-8b-instruct/saliency/imdb/{part}"]
        for part in ("0-168", "168-336")
    )
    assert first.low == first.high
    forwards, tokens, prefix = 2 * 15 * (19 + 1) + 3, 371 + 5, 40
    repeated = (2 * (19 + 1) + 3) * tokens + prefix  # one draw in float32 of a step of a block
    whole = 168 * (forwards * tokens + prefix)
    assert first.low == whole + 6 * repeated
    assert second.low == whole + repeated
    assert paper.flops(first, first.low) == 2 * 8.03e9 * first.low
    fixed = jobs["evaluate_soft/fixed/llama-3.1-8b-instruct/saliency/imdb/0-168"]
    assert fixed.low == first.low


def test_imported_scores_cost_only_their_evaluation(tmp_path):
    mine = {"mine": {"source": {"kind": "scores", "path": "mine.parquet"}}}
    config = run_of(methods=["random", "mine"], catalogue=RUN["catalogue"] | {"methods": mine})
    of_mine = [job.rule for job in plan_run(config, NOWHERE).jobs if "/mine/" in job.cell]
    assert of_mine == ["evaluate_soft"] * 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_shards_add_up_to_the_unsharded_work(dtype):
    model = {"models.small": {"dtype": dtype}}
    whole = plan_run(run_of(model), NOWHERE)
    sizes = {"shard_size": 32, "evaluation_shard_size": 16}
    cut = plan_run(run_of(model | {"datasets.reviews": sizes}), NOWHERE)
    of_reviews = [job for job in cut.jobs if "/random/reviews" in job.cell]
    assert [job.cell for job in of_reviews] == [
        *(f"small/random/reviews/{part}" for part in ("0-32", "32-40")),
        *(f"dynamic/small/random/reviews/{part}" for part in ("0-16", "16-32", "32-40")),
    ]
    totals = [sum(job.low for job in plan.jobs) for plan in (whole, cut)]
    warm_up = 2 * (BEFORE + 20 + BEHIND)  # of saliency's second shard
    assert totals[0] + warm_up == pytest.approx(totals[1], rel=1e-12)
    assert cut.lengths == whole.lengths


HALF_ON_GPU = {"dtype": "bfloat16", "resources": {"gpu": 1}}


def jobs_of(model, **changes):
    """Return the plan of a run, and its jobs on reviews by rule and method."""
    plan = plan_run(run_of({"models.small": model}, **changes), NOWHERE)
    jobs = [job for job in plan.jobs if job.cell.endswith("/reviews")]
    return plan, {(job.rule, job.cell.split("/")[-2]): job for job in jobs}


def test_float32_takes_longer_on_a_gpu_that_computes_in_half_precision():
    methods = ["saliency", "value_zeroing"]
    plan, jobs = jobs_of(HALF_ON_GPU, methods=methods)
    read, more = BEFORE + 20 + BEHIND, FLOAT32_TIME - 1
    repeated = 2 * 2  # a step of blocks 0 and 1 of three, two forwards each
    for name, others in (("saliency", 0), ("value_zeroing", 40 + 1)):
        job = jobs["attribute", name]
        assert job.low == (2 * (40 + 1) + repeated) * read
        assert job.float32_flops == 2 * WEIGHTS * (others + repeated) * read
        time = 2 * WEIGHTS * (job.low + more * (others + repeated) * read) / 1e9
        assert plan.seconds(job, 1e9) == pytest.approx(job.start_up + time)
    soft = jobs["evaluate_soft", "saliency"]
    assert soft.float32_flops == 2 * WEIGHTS * 3 * soft_tokens(sample(read, BEFORE), 3, draws=1)
    for model in ({"dtype": "bfloat16"}, {"resources": {"gpu": 1}}):
        _, others = jobs_of(model, methods=methods)
        assert not any(job.float32_flops for job in others.values())


@pytest.mark.parametrize(("gpu", "speed"), [(0, 5e8), (1, 6e10)])
def test_ifr_is_limited_by_memory_bandwidth(gpu, speed):
    plan, jobs = jobs_of({"resources": {"gpu": gpu}}, methods=["ifr"])
    job = jobs["attribute", "ifr"]
    elements = (40 + 1) * WEIGHTS * (BEFORE + 20 + BEHIND) ** 2 / 2 / (12 * 128)
    assert job.memory_seconds == pytest.approx(elements / speed)
    work = plan.flops(job, job.low) / 1e12
    assert plan.seconds(job, 1e12) == pytest.approx(job.start_up + work + elements / speed)


@pytest.mark.parametrize(("model", "more"), [({}, 0), (HALF_ON_GPU, FLOAT32_TIME - 1)])
def test_the_masked_model_of_reagent_adds_its_weights(model, more):
    plan, jobs = jobs_of(model, methods=["reagent", "saliency"])
    job, other = (jobs["attribute", name] for name in ("reagent", "saliency"))
    samples = 41 + (2 if model else 0)  # one to warm up, and those in float32 of blocks 0 and 1
    flops = 2 * 1.25e8 * samples * 20 * (BEFORE + 20 + BEHIND)
    assert job.masked_flops == pytest.approx(flops)
    assert plan.flops(job, job.low) == pytest.approx(2 * WEIGHTS * job.low + flops)
    assert job.start_up == pytest.approx(other.start_up + 4 * 1.25e8 / 1e9)
    without = replace(job, masked_flops=0, float32_flops=job.float32_flops - bool(more) * flops)
    time = (1 + more) * flops / 1e9
    assert plan.seconds(job, 1e9) == pytest.approx(plan.seconds(without, 1e9) + time)
    unknown = {"other": {"label": "Other", "source": {"kind": "hub", "repository": "no/where"}}}
    catalogue = copy.deepcopy(RUN["catalogue"]) | {"masked_models": unknown}
    with pytest.raises(BenchmarkError, match=r"model 'other': source\.parameters: not set"):
        jobs_of(model, methods=["reagent"], masked_model="other", catalogue=catalogue)


def test_quantising_takes_time_on_a_cpu(tmp_path):
    weights = tmp_path / "a.gguf"
    weights.write_bytes(b"GGUF")
    start_up = {}
    for kind in ("none", "nf4"):
        for gpu in (0, 1):
            source = {"kind": "gguf", "path": str(weights), "parameters": WEIGHTS}
            model = {"quantization": kind, "resources": {"gpu": gpu}, "source": source}
            _, jobs = jobs_of(model)
            start_up[kind, gpu] = jobs["attribute", "saliency"].start_up
    assert start_up["nf4", 0] - start_up["none", 0] == pytest.approx(WEIGHTS / QUANTISING_SPEED)
    assert start_up["nf4", 1] == start_up["none", 1]


def test_4_bit_weights_are_quantised_once_and_read_by_other_jobs():
    """Two bytes per weight become 4.5 bits."""
    start_up = {}
    for kind in ("none", "nf4"):
        plan, jobs = jobs_of({"dtype": "bfloat16", "quantization": kind})
        start_up[kind] = jobs["attribute", "saliency"].start_up
    saved = (2 - 4.5 / 8) * WEIGHTS / READING_SPEED
    assert start_up["none"] - start_up["nf4"] == pytest.approx(saved)
    (once,) = (job for job in plan.jobs if job.rule == "convert_model")
    assert once.start_up - start_up["none"] == pytest.approx(WEIGHTS / QUANTISING_SPEED)


def test_every_section_of_a_run_adds_its_jobs():
    """tests/workflow/test_plan.py counts the jobs of each rule."""
    section = {"others": ["mean"], "draws": 3, "datasets": ["reviews"], "methods": ["random"]}
    ranking = {"steps": 20, "operator": "remove"}
    checks = {"layers": [2], "methods": ["saliency"], "datasets": ["reviews"]}
    plan = plan_run(run_of(operators=section, ranking=ranking, sanity_checks=checks), NOWHERE)
    cells = {job.rule: [one.cell for one in plan.jobs if one.rule == job.rule] for job in plan.jobs}
    assert "dynamic@mean/small/random/reviews" in cells["evaluate_soft"]
    assert cells["evaluate_ranking"] == ["small/random/reviews", "small/saliency/reviews"]
    assert "small@reinit-2/saliency/reviews" in cells["attribute"]
    assert not any("@reinit" in cell for cell in cells["evaluate_soft"])
    (job,) = (job for job in plan.jobs if job.rule == "inspect_inputs")
    assert job.cell == "dynamic/small/reviews"
    assert job.low == 40 * (1 + 3 * 3 * 2) * (BEFORE + 20 + BEHIND)


def test_shuffled_labels_add_a_training_job():
    changes = {"models": ["demo-llama"], "datasets": ["demo-sentiment", "demo-why"]}
    checks = {"labels": True, "methods": ["saliency"]}
    plan, once = (
        plan_run(run_of(**changes, sanity_checks=checks | labels), NOWHERE)
        for labels in ({}, {"labels": False})
    )
    assert [job.rule for job in once.jobs].count("train_model") == 1
    first, second = (job for job in plan.jobs if job.rule == "train_model")
    assert (first.cell, first.model) == ("demo-llama", "demo-llama")
    assert second == replace(first, cell="demo-llama@shuffled-labels")
    trained = TrainedModel(kind="trained", architecture="llama", datasets=("demo-sentiment",))
    means = [of.mean(lambda sample: sample.prompt + sample.output) for of in plan.lengths.values()]
    tokens = sum(means) / 2
    assert first.high == 3 * trained.steps * trained.batch_size * tokens


def test_a_draw_budget_gives_a_lower_and_an_upper_limit():
    evaluation = {"draws": {"target_half_width": 0.1, "max": 15}, "pi_grid": [0.2, 0.5, 0.8]}
    plan = plan_run(run_of(evaluation=evaluation), NOWHERE)
    soft = [job for job in plan.jobs if job.rule == "evaluate_soft"]
    assert soft[0].low == 40 * (11 * (20 + BEHIND) + BEFORE)
    assert soft[0].high == 40 * (123 * (20 + BEHIND) + BEFORE)
    both = sum(job.low for job in soft), sum(job.high for job in soft)
    assert " to ".join(map(scaled, both)) in line_of(plan_text(plan, 1e12), soft[0].rule)


def line_of(text, rule):
    """Return the cells of one line of a printed plan."""
    return next(row for row in rows_of(text) if row[0] == rule)


def test_totals_are_the_sums_of_the_lines():
    plan = plan_run(run_of(), NOWHERE)
    tokens = sum(job.low for job in plan.jobs)
    seconds = [job.start_up + 2 * WEIGHTS * job.low / 1e9 for job in plan.jobs]
    starting = sum(job.start_up for job in plan.jobs)
    assert line_of(plan_text(plan, 1e9), "total")[1:] == [
        str(len(plan.jobs)), scaled(tokens), scaled(2 * WEIGHTS * tokens),
        duration(sum(seconds)), f"{100 * starting / sum(seconds):.0f} %",
        duration(max(seconds)), "–",  # no model is on a GPU
    ]  # fmt: skip


def test_the_text_fits_80_columns_and_marks_measured_lengths(paper):
    text = plan_text(paper, 4e14)
    assert max(map(len, text.splitlines())) <= 80
    assert "Lengths are estimated.\n" in text
    (cell, lengths), *_ = paper.lengths.items()
    mixed = replace(paper, lengths={**paper.lengths, cell: replace(lengths, origin="measured")})
    line = f"Lengths are measured: {' · '.join(cell)}; estimated: "
    assert line in " ".join(plan_text(mixed, 4e14).split())


def test_the_plan_states_the_tokens_that_fit_on_a_gpu():
    source = {"kind": "hub", "repository": "no/where", "parameters": 8.03e9, "layers": 32}
    model = HALF_ON_GPU | {"source": source}
    plan = plan_run(run_of({"models.small": model}), NOWHERE)
    text = plan_text(plan, None)
    room = 80e9 - 2 * 8.03e9
    fits = [scaled(room / size) for size in token_bytes(8.03e9, 32, "bfloat16")]
    assert ["small", *fits] in rows_of(text)
    assert "With gradients: saliency." in " ".join(text.split())
    for other in ({"resources": {"gpu": 0}}, {"source": source | {"layers": None}}):
        plan = plan_run(run_of({"models.small": model | other}), NOWHERE)
        assert "tokens of a batch" not in plan_text(plan, None)


@pytest.mark.follows("set THROUGHPUT to the TFLOP/s")
def test_without_a_throughput_no_time_is_shown():
    plan = plan_run(run_of(), NOWHERE)
    text = plan_text(plan, None)
    assert line_of(text, "total")[4:] == ["–"] * 4
    assert "Time is not known: set THROUGHPUT" in text
    assert "Longest job" not in text
    assert "Longest job" in plan_text(plan, 1e12)


def test_the_plan_lists_time_and_gpu_hours_by_rule_and_method():
    config = run_of({"models.small": {"resources": {"gpu": 1}}}, protocols=["dynamic", "fixed"])
    plan = plan_run(config, NOWHERE)
    lines = rows_of(plan_text(plan, 1e7))
    by_rule, held = {row[0]: row for row in lines}, Counter()
    for job in plan.jobs:
        if job.model and job.rule in LOADING_RULES:
            held[job.rule] += plan.seconds(job, 1e7) / 3600
    assert {rule: float(by_rule[rule][7]) for rule in held} == pytest.approx(held, rel=0.05)
    assert float(by_rule["total"][7]) == pytest.approx(sum(held.values()), rel=0.05)
    assert by_rule["build_prompts"][7] == by_rule["fetch_dataset"][7] == "–"
    rows = lines[lines.index(["method", "attribution", "evaluation", "GPU-hours"]) + 2 :][:2]
    for name, attribution, evaluation, hours in rows:
        jobs = [job for job in plan.jobs if f"/{name}/" in job.cell]
        times = dict.fromkeys(("attribute", "evaluate_soft"), 0.0)
        for job in jobs:
            times[job.rule] += plan.seconds(job, 1e7)
        assert [attribution, evaluation] == [duration(time) for time in times.values()]
        on_gpu = sum(times.values()) - (name == "random") * times["attribute"]
        assert float(hours) == pytest.approx(on_gpu / 3600, rel=0.05)
    assert [row[0] for row in rows] == ["random", "saliency"]


def test_jobs_that_exceed_the_runtime_of_their_model_are_named():
    def text_of(minutes):
        resources = {"gpu": 1, "runtime": minutes}
        plan = plan_run(run_of({"models.small": {"resources": resources}}), NOWHERE)
        return plan, plan_text(plan, 1e6)

    plan, text = text_of(300)
    seconds = [plan.seconds(job, 1e6) for job in plan.jobs if job.model]
    over = [second for second in seconds if second > 300 * 60]
    assert 0 < len(over) < len(seconds)
    line = f"Over resources.runtime of small, 300 min: {len(over)} jobs, up to "
    assert line + duration(max(over)) in text
    assert "Over resources" not in text_of(math.ceil(max(over) / 60))[1]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        *((scaled(value), text) for value, text in ((0, "0"), (999, "999"), (999.9, "1.00 k"))),
        *((scaled(value), text) for value, text in ((0.5, "0.50"), (12.34, "12.3"))),
        *((scaled(value, "B"), text) for value, text in ((0, "0 B"), (1.25e21, "1.25 ZB"))),
        *((duration(value), text) for value, text in ((1.5, "1.5 s"), (119, "119 s"))),
        *((duration(value), text) for value, text in ((180, "3 min"), (7200, "2 h"))),
        (duration(3.6e6), "1000 h"),
    ],
)
def test_numbers_and_times_have_three_digits_and_a_suitable_unit(written, text):
    assert written == text


def test_costs_by_pi_equal_those_of_actual_runs():
    """Work on records only, without start-up."""
    config = run_of(methods=["saliency", "ifr"])
    for count, cost in enumerate(costs_by_pi(config, None, 1e12), 1):
        evaluation = {"preset": "paper", "draws": 4, "pi_grid": [0.2, 0.5, 0.8]}
        run = run_of(methods=["saliency", "ifr"], evaluation=evaluation | {"pi_per_step": count})
        plan = plan_run(run, None)
        work = [plan.seconds(job, 1e12) - job.start_up for job in plan.jobs]
        assert cost == pytest.approx(sum(work), rel=1e-9)
