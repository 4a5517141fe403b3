"""The benches: every one runs at toy size, and what they count and estimate is right."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from math import isfinite, sqrt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy.stats import norm, ttest_1samp
from snakemake.iocontainers import Wildcards
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

import aggregation
import draws
import evaluation
import gpu
import precision
import readings
import scheduler
from measuring import build_network, forward_flops, markdown, report, row
from parsed import ROOT, parsed_rules
from pisoft import api as library
from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.attribution.engine import attribute_block, scores_row
from pisoft.config.evaluation import DrawBudget, DrawSettings
from pisoft.config.jobs import EvaluateJob, LoadedModel
from pisoft.config.run_file import RunFile
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.budget import first_draws, further_draws
from pisoft.faithfulness.perturbation import PerturbationTarget, Perturber
from pisoft.faithfulness.soft import METRICS, measure_draws
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.generation import continue_greedily, empty_row
from pisoft.models.model import LanguageModel
from pisoft.statistics.soft import summarise
from pisoft.store.parquet import provenance, read_table, write_rows
from random_models import twins
from tiny_tokenizers import llama_tokenizer

pytestmark = pytest.mark.slow

GRID = (0.2, 0.5, 0.8)
COLUMNS = ["name", "value", "unit", "peer", "ratio", "aim", "met"]
TEXTS = ("a wonderful film", "the dull ending hurt", "storms had damaged the old station", "a film")


def check_rows(rows):
    """Hold the lines of a report to what their readers rely on."""
    assert rows
    assert len({line["name"] for line in rows}) == len(rows)
    for line in rows:
        assert list(line) == COLUMNS
        assert isfinite(line["value"])
        assert isfinite(line["ratio"])
        assert (line["met"] is None) == (line["aim"] is None)


def run_bench(bench, output, *options):
    """Run a bench in this process and return what it has written."""
    bench.main(bench.parser().parse_args([*options, "--output", str(output)]))
    return json.loads(output.read_text(encoding="utf-8"))


# What the benches share -----------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [0, 4])
def test_flops_are_those_of_the_matrix_products(prefix):
    model, _ = twins("llama-gqa")
    length = 9
    cache = model.read_prefix(model.embed(torch.arange(prefix)[None]))
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        embeddings = model.embed(torch.arange(length)[None])
        model.next_token_logits(embeddings, torch.tensor([[length - 1]]), prefix=cache)
    weights = counter.get_flop_counts()["Global"][torch.ops.aten.mm]
    weights -= 2 * 3 * 32 * 48  # the last feed-forward block runs at one more, unused position
    pairs = [(q, k) for q in range(prefix, prefix + length) for k in range(q + 1)]
    product = model.layers * 4 * len(pairs) * 2 * 8  # 4 heads of width 8
    assert forward_flops(model, length, "dynamic", prefix) == weights + 2 * product
    assert forward_flops(model, length, "fixed", prefix) == weights + product


def test_aims_are_least_values_or_ranges():
    def met(ratio, aim):
        return row("", 0, "", "", ratio, aim)["met"]

    assert [met(ratio, 2.0) for ratio in (1.9, 2.0, 9.0)] == [False, True, True]
    assert [met(ratio, (0.93, 0.97)) for ratio in (0.92, 0.93, 0.97, 0.98)] == [
        False,
        True,
        True,
        False,
    ]
    assert met(1.0, None) is None


def test_a_report_has_its_facts_beside_its_rows(tmp_path, capsys):
    line = row("speed", 3, "1/s", "peer: 1", 3, 2.0)
    report([line], tmp_path / "new/plain.json")
    report([line], tmp_path / "facts.json", device="toaster")
    assert json.loads((tmp_path / "new/plain.json").read_text()) == [line]
    assert json.loads((tmp_path / "facts.json").read_text()) == {
        "device": "toaster",
        "rows": [line],
    }
    assert "aim 2.0, met: True" in capsys.readouterr().out


# The evaluator's bench ------------------------------------------------------------------------


def test_the_evaluators_bench_runs(tmp_path):
    options = ["--lengths", "7", "48", "--draws", "5", "--loop-draws", "3", "--repetitions", "1"]
    rows = run_bench(evaluation, tmp_path / "evaluation.json", *options)
    check_rows(rows)
    assert len(rows) == 2 * 2 * 3
    assert [line["aim"] for line in rows[:6]] == [None, None, None, 2.0, 3.0, None]


@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
def test_both_loops_measure_the_perturbation_that_the_evaluator_measures(protocol, monkeypatch):
    model = LanguageModel(build_network(ATTENTION_NAME), "bench")
    target = PerturbationTarget([5, 6, 7, 8, 9], np.arange(5), target_id=0)
    mask = evaluation.draw_masks(target, 6)
    ours = evaluation.batched(model, target, mask, 6, protocol)
    loop = evaluation.one_mask_at_a_time(model, target, mask, 6, protocol)
    assert len(np.unique(ours)) > 3, "the masks differ"
    np.testing.assert_allclose(ours, loop, atol=1e-5)
    for kept in (0.0, 1.0):  # where element masks are token masks
        monkeypatch.setattr(evaluation, "PI", kept)
        (distance,) = evaluation.batched(model, target, mask, 1, protocol)
        (released,) = evaluation.as_released(model, target, 1, protocol)
        assert released == pytest.approx(sqrt(2) * distance**2, rel=1e-3, abs=1e-6)


def test_distances_that_differ_end_the_bench(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation, "one_mask_at_a_time", lambda *_: np.full(3, 2.0))
    options = ["--lengths", "7", "--draws", "3", "--repetitions", "1"]
    with pytest.raises(RuntimeError, match="differ"):
        run_bench(evaluation, tmp_path / "evaluation.json", *options)


# The bench of draws ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of one cell, in which one of four samples has failed."""
    run = tmp_path_factory.mktemp("results") / "toy"
    tokenizer = llama_tokenizer()
    torch.manual_seed(2)
    network = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    for parameter in network.parameters():  # sharper than the default
        parameter.data.mul_(8 if parameter.dim() > 1 else 1)
    network.save_pretrained(run / "data/models/llama-v0.3")
    tokenizer.save_pretrained(run / "data/models/llama-v0.3")
    model = library.load(run / "data/models/llama-v0.3", device="cpu")
    prompts = [library.prompt(model, [{"role": "user", "content": text}]) for text in TEXTS]
    answered = continue_greedily(model, prompts[:3], 500, max_new_tokens=3, step_interval=2)
    by_sample = {answer["sample_id"]: answer for answer in answered}
    answers = [by_sample[prompt["sample_id"]] for prompt in prompts[:3]]
    answers.append(empty_row(prompts[3], "empty_generation"))
    method = load_method("random")
    pairs = list(zip(prompts, answers, strict=True))
    found = attribute_block(method(method.Options(), Context(seed=1)), model, pairs)
    rows = list(map(scores_row, found))
    settings = EvaluateJob(
        model=LoadedModel(
            name="llama-v0.3",
            repository=None,
            revision=None,
            dtype="float32",
            quantization="none",
            device="cpu",
        ),
        protocol="dynamic",
        evaluation=DrawSettings(pi_grid=GRID),
        seed=1,
        block_size=2,
        first_place=0,
        token_budget=None,
        compile=False,
    )
    origin = provenance(settings.model_dump(mode="json"))
    write_rows(run / "data/prompts/llama-v0.3/why.parquet", "prompts", prompts, origin)
    write_rows(run / "data/generations/llama-v0.3/why.parquet", "generations", answers, origin)
    cell = "llama-v0.3/random/why.parquet"
    write_rows(run / "data/attributions" / cell, "attributions", rows, origin)
    write_rows(run / "data/soft/dynamic" / cell, "soft", [], origin)
    return run


def read_cell(run, *options):
    arguments = draws.parser().parse_args(["--run", str(run), *options])
    (path,) = draws.chosen_files(arguments)
    return draws.read_cell(path, arguments)


def steps_of(pool):
    """Return the sample of every step of the finished run that has not failed."""
    assert pool.finite.tolist() == [True] * 6 + [False]  # two steps each
    return np.repeat([0, 1, 2], 2)


def test_the_bench_of_draws_runs(finished, tmp_path, capsys):
    options = ["--run", str(finished), "--repetitions", "3", "--half-widths", "0.5", "0.01"]
    rows = run_bench(draws, tmp_path / "draws.json", *options)
    check_rows(rows)
    expected = 6 * (2 * 123 + 3 * 123 + 3 * 11)  # steps, and repetitions of 1 + 2 + 4 · 2 · K
    said = capsys.readouterr().err
    assert f"llama-v0.3, random, why: {expected} forwards for 6 steps" in said
    by_name = {line["name"].removeprefix("llama-v0.3, random, why"): line for line in rows}
    assert by_name[": efficient: forwards per sample"]["value"] == 2 * 11
    assert by_name[": budget 0.5: forwards per sample"]["value"] == 2 * (3 + 4 * 2)


def test_a_pool_takes_as_many_forwards_as_announced(finished, monkeypatch):
    cell, counted = read_cell(finished), []
    original = Perturber.measure

    def counting(self, wanted):
        before = self.forwards
        found = original(self, wanted)
        counted.append(self.forwards - before)
        return found

    monkeypatch.setattr(Perturber, "measure", counting)
    draws.measure_pool(cell, "latin", 4, repetitions=2)
    assert sum(counted) == 2 * 6 * draws.step_forwards(len(GRID), {"ns": 4, "nc": 4})


@pytest.mark.parametrize("goal", [0.5, 0.03, 0.001])
def test_a_replayed_budget_takes_the_draws_that_it_would_ask_for(finished, goal):
    cell = read_cell(finished)
    budget = DrawBudget(target_half_width=goal, max=15)
    pool = draws.measure_pool(cell, "latin", 15, repetitions=2)
    sample_of_step = steps_of(pool)
    chosen = np.ones(6, dtype=int)  # the second repetition
    replayed, taken, rounds = draws.replay_budget(
        pool.of_steps(pool.finite), budget, sample_of_step, chosen
    )
    settings = cell.settings.evaluation.model_copy(update={"sampler": "latin", "draws": budget})
    steps = [step for block in cell.steps(settings, seed=1) for step in block]
    perturber, wanted = Perturber(cell.model, 10_000), first_draws(budget)
    while any(wanted.values()):
        measure_draws(perturber, steps, wanted)
        wanted = further_draws(budget, steps, wanted)
    for one, other in zip(replayed, steps[:6], strict=True):
        for metric in METRICS:
            assert other.curves(metric).shape[1] == taken[metric]
            np.testing.assert_allclose(one.curves(metric), other.curves(metric), atol=1e-5)
    assert perturber.forwards == 6 * draws.step_forwards(len(GRID), taken, rounds)
    assert (goal == 0.03) == (1 < taken["ns"] < 15), "one goal lies between fewest and most draws"


def pool_of(areas):
    level = np.repeat(areas[:, :, None], 3, axis=2)  # curves without slope, over a span of 1
    return draws.Pool((0.0, 0.5, 1.0), dict.fromkeys(METRICS, level))


def test_the_variance_of_independent_draws_shrinks_with_their_number():
    rng = np.random.default_rng(0)
    areas = rng.normal(0, 2, size=(40, 60, 5)) + np.arange(60)[:, None]  # 30 samples, two steps
    weights = draws.step_weights(np.repeat(np.arange(30), 2))
    mode = draws.independent_mode("paper", pool_of(areas), weights, grid_size=3)
    assert mode.variances["ns"] == pytest.approx(4 / 2 / 5, rel=0.05)
    np.testing.assert_allclose(
        mode.values["nc"], areas.mean(axis=2).reshape(40, 30, 2).mean(axis=2), rtol=1e-12
    )
    assert mode.forwards == 2 * (1 + 2 + 4 * 10)


def test_draws_that_make_up_for_each_other_have_no_variance_together():
    rng = np.random.default_rng(0)
    first = rng.normal(size=(8, 4, 1))
    weights = draws.step_weights(np.arange(4))
    pool = pool_of(np.concatenate([first, -first], axis=2))
    assert draws.latin_mode("latin", pool, weights, 3).variances["ns"] == pytest.approx(0)
    (spread,) = {
        round(v, 12) for v in draws.latin_mode("", pool_of(first), weights, 3).variances.values()
    }
    assert spread == pytest.approx(first.var(axis=0, ddof=1).mean())


def test_the_half_width_is_that_of_the_t_test():
    values = np.random.default_rng(0).normal(size=9)
    interval = ttest_1samp(values, 0).confidence_interval(0.95)
    found = draws.interval_half_width(values.var(ddof=1) - 0.1, 0.1, 9)
    assert found == pytest.approx((interval.high - interval.low) / 2)


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_coverage_is_that_of_normal_samples(shift):
    """Intervals whose values are off by so many standard errors hold the mean as often as known."""
    n = 400
    rng = np.random.default_rng(3)
    truth = rng.normal(size=n)
    values = truth + rng.normal(0, 0.5, size=(50, n))
    values += truth.mean() - values.mean()
    off = shift * np.sqrt((truth.var() + 0.25) / n)
    expected = norm.cdf(1.96 - shift) - norm.cdf(-1.96 - shift)
    assert draws.coverage(values + off, truth) == pytest.approx(expected, abs=0.015)


def test_costs_and_widths_follow_from_the_variances():
    """Two samples, 2 apart, have variance 2, to which single draws of ±1 add 2 more."""
    samples = np.array([[0.0], [2.0]])
    sign = np.array([1.0, -1.0])[:, None, None]
    little = 1e-6 * np.tile([1.0, -1.0, 0.0], 5)  # no variance would leave nothing to divide by
    paper = pool_of(little * sign + samples)
    latin = pool_of(1e-6 * sign + np.zeros(15) + samples)
    few = pool_of(np.broadcast_to(sign, (2, 2, 1)) + samples)
    rows = list(draws.cell_rows("c", [paper, latin, few], np.arange(2), 3, [0.1]))
    found = {line["name"]: line["ratio"] for line in rows}
    forwards = 11 / 123
    assert found["c: efficient: forwards per sample"] == pytest.approx(forwards)
    assert found["c, ns: efficient: half-width, 2 samples"] == pytest.approx(sqrt((2 + 2) / 2))
    cost = found["c, ns: efficient: forwards for the same interval, per sample of paper's"]
    assert cost == pytest.approx(forwards * 2)


def test_a_run_of_another_version_is_named(finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "old")
    path = run / "data/soft/dynamic/llama-v0.3/random/why.parquet"
    write_rows(path, "soft", [], provenance({"seed": 1}))
    with pytest.raises(BenchmarkError, match=r"why\.parquet: .*run the workflow again"):
        read_cell(run)


def test_what_cannot_be_measured_is_named(finished, tmp_path):
    for options, message in (
        (["--run", str(tmp_path)], "holds no results; finish the run first"),
        (
            ["--models", "llama-v0.2"],
            "--models: unknown name 'llama-v0.2'; did you mean 'llama-v0.3'",
        ),
        (["--methods", "rando"], "did you mean 'random'"),
        (["--model-folder", str(tmp_path / "no")], "weights are not in"),
        (["--samples", "1"], "1 samples can be evaluated"),
        (["--repetitions", "1"], "2 or more"),
    ):
        with pytest.raises(BenchmarkError, match=message):
            run_bench(draws, tmp_path / "draws.json", "--run", str(finished), *options)


# The bench of aggregation ---------------------------------------------------------------------


def test_the_bench_of_aggregation_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)  # else the folder of the first call is kept
    options = ["--models", "1", "--methods", "2", "--datasets", "2", "--samples", "5"]
    rows = run_bench(aggregation, tmp_path / "report/aggregation.json", *options)
    check_rows(rows)
    of_rules, (seconds, _, memory) = rows[:-3], rows[-3:]
    assert [line["aim"] for line in rows if line["aim"]] == [1.0, 1.0]
    assert seconds["value"] == pytest.approx(sum(line["value"] for line in of_rules[::3]))
    assert memory["value"] == max(line["value"] for line in of_rules[2::3])
    assert [path.name for path in tmp_path.iterdir()] == ["report"], "the result set is deleted"


def values_of(line):
    """Return a command line's values by option, without its name."""
    values = {}
    for item in line[not line[0].startswith("--") :]:
        if item.startswith("--"):
            found = values[item] = []
        else:
            found.append(item)
    return values


def test_the_bench_calls_scripts_as_the_rules_do(tmp_path):
    # Of both embedded runs, as neither shows all.
    rules = parsed_rules([ROOT / "config/demo-trust.yaml"]) | parsed_rules()
    config = aggregation.configure(
        aggregation.parser().parse_args(["--models", "1", "--methods", "2"])
    )
    for task in aggregation.jobs(config, tmp_path):
        rule, values = rules[task.rule], values_of(task.line)
        assert task.threads == rule.resources["_cores"].value, task.rule
        assert f"scripts/{task.script}.py" in rule.params["command"](None, None), task.rule
        more = dict(rule.params.items()).get("options", [])  # such as those of tables alone
        named = re.findall(r"--[a-z-]+", " ".join([rule.shellcmd, *more]))
        assert set(values) == set(named), task.rule
        cell = dict(pair.split("=") for pair in values.get("--cell", []))
        wildcards = Wildcards(fromdict={"model": "demo-llama", "dataset": "demo-why"})
        of_rule = json.loads(rule.params["settings"](wildcards))
        assert set(json.loads(values["--settings"][0])) == set(of_rule), task.rule
        if task.script != "summarise_results":
            continue
        assert task.line[0] == rule.params["name"], task.rule
        assert set(cell) == set(rule.wildcard_names), task.rule
        for files, option in ((rule.input, "--files"), (rule.output, "--outputs")):
            kinds = {pair.partition("=")[0] for pair in values[option]}
            # A run that does not ask for other operators has no files of these.
            assert kinds == set(dict(files.items())) - {"operators"}, task.rule


def test_the_result_set_is_of_the_size_that_is_asked_for(tmp_path):
    arguments = aggregation.parser().parse_args(
        ["--models", "2", "--methods", "3", "--datasets", "4", "--samples", "200"]
    )
    config = aggregation.configure(arguments)
    aggregation.make_results(config, arguments.samples, tmp_path)
    files = sorted((tmp_path / "soft").rglob("*.parquet"))
    assert len(files) == 2 * 3 * 4
    assert len(list((tmp_path / "ranking").rglob("*.parquet"))) == 2 * 3 * 3, "3 of label words"
    table = read_table(files[0], "soft")
    assert table.num_rows == 200 * 20
    lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
    assert len(lists) == 6
    assert {len(draws) for name in lists for draws in table.column(name).to_pylist()} == {15}
    samples, *_ = summarise(files, minimum_h0=1e-4, clamp="mean")
    cell = ["protocol", "model", "method", "dataset"]
    means = samples.to_pandas().query("metric == 'soft_nc'").groupby(cell)["value"]
    assert (means.count() == 198).all(), "one of a hundred fails"
    assert means.mean().nunique() == len(files), "cells differ"


def test_memory_is_that_of_the_command_alone():
    held = np.ones(10**8 // 8)
    little, much = (
        subprocess.run(
            [sys.executable, "-S", str(aggregation.USAGE), sys.executable, "-S", "-c", code],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for code in ("pass", "b'.' * 300_000_000")
    )
    assert json.loads(little)[2] < held.nbytes
    assert 3e8 < json.loads(much)[2] < 3e8 + held.nbytes


def test_more_than_the_paper_has_is_refused():
    arguments = aggregation.parser().parse_args(["--models", "4"])
    with pytest.raises(BenchmarkError, match="--models 4: allowed are 1 to 3"):
        aggregation.configure(arguments)


def test_a_job_that_fails_ends_the_bench(tmp_path, capfd):
    task = aggregation.Job("summarise", "summarise_results", ["soft"], (tmp_path / "a/b.parquet",))
    with pytest.raises(BenchmarkError, match="a job of summarise has failed"):
        aggregation.measure(task)
    assert "--outputs" in capfd.readouterr().err


# The other benches ----------------------------------------------------------------------------


def test_the_gpu_bench_runs_at_toy_size_on_a_cpu(tmp_path):
    options = ["--shape", "toy", "--device", "cpu", "--tokens", "12", "--prefix", "3"]
    options += ["--draws", "2", "--grid", "2", "--token-budgets", "30", "200"]
    content = run_bench(gpu, tmp_path / "gpu.json", *options)
    assert content["torch"] == torch.__version__
    assert (content["device"], content["shape"]) == ("cpu", "toy")
    check_rows(content["rows"])
    assert len(content["rows"]) == 2 * 2 + 2 * (2 * 3 + 1)


def test_the_bench_of_attribution_runs_as_make_calls_it(root, tmp_path):
    output = tmp_path / "attribution.json"
    options = ["--methods", "attention", "--repetitions", "1", "--output", str(output)]
    subprocess.run(
        [sys.executable, "tests/bench/attribution.py", *options],
        cwd=root,
        env={**os.environ, "PYTHONPATH": "scripts:tests"},
        check=True,
        capture_output=True,
    )
    check_rows(json.loads(output.read_text(encoding="utf-8")))


def test_the_bench_of_the_scheduler_runs(tmp_path, capsys):
    settings = ["100/1s", "no limit --scheduler greedy", "100/1s one-timer"]
    options = ["--settings", *settings, "--idle", "6", "--jobs", "0"]
    content = run_bench(scheduler, tmp_path / "scheduler.json", *options)
    check_rows(content["rows"])
    limited, unlimited, one_timer = content["runs"]
    assert limited["workload"] == {"jobs": 6, "sleep": 0, "cores": 3, "gpus": 3}
    # Snakemake waits for the timer of the last round, unless nothing has started one.
    assert limited["wait"] > 0.9
    assert unlimited["wait"] < 0.9
    assert one_timer["wait"] < 0.9, "the benchmark's own hook"
    for load in content["runs"]:
        assert load["cpu_seconds"] > 0
        assert load["threads"] >= 1
    printed = capsys.readouterr().out
    assert "| 6 jobs without work on 3 cores | no limit --scheduler greedy | " in printed


def test_the_load_of_a_driver():
    looks = [[1.0, 0.5, 3], [2.0, 1.0, 9], [8.0, 3.0, 4], [9.0, 3.25, 4], [10.5, 3.3, 1]]
    taken = {"seconds": 10, "wait": 1, "cpu_seconds": 3.4, "children_seconds": 2, "threads": 9}
    load = scheduler.load_of({**taken, "looks": looks})
    assert load == scheduler.Load(**taken, late=0.25)
    assert scheduler.load_of({**taken, "looks": looks[:1]}).late == 0


def test_a_driver_that_fails_ends_the_bench():
    workload = scheduler.Workload(jobs=3, sleep=0, cores=1, gpus=1)
    with pytest.raises(BenchmarkError, match=r"Snakemake has failed under 1/1y: .*1/1y"):
        scheduler.measure(workload, "1/1y")


@pytest.mark.parametrize("types", [("float32", "bfloat16")])
def test_the_bench_of_precision_finds_more_rounding_where_logits_are_rounded(
    finished, tmp_path, monkeypatch, types
):
    monkeypatch.setattr(precision, "TYPES", types)
    texts, output = tmp_path / "texts.tsv", tmp_path / "precision.json"
    texts.write_text("\n".join(f"{text}\t1" for text in TEXTS), encoding="utf-8")
    model = ["--model-folder", str(finished / "data/models/llama-v0.3"), "--samples", "3"]
    options = [*model, "--texts", str(texts), "--output", str(output)]
    precision.main(precision.parser().parse_args(options))
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["n"] == 3
    rows = {row["type"]: row for row in found["against float64"]}
    before, after = rows["bfloat16, logits rounded"], rows["bfloat16"]
    distance = {kind: float(row["a draw's distance"]) for kind, row in rows.items()}
    assert distance["float32"] < 1e-5 < distance["bfloat16"]
    assert after != before
    with pytest.raises(BenchmarkError, match="no such file"):
        precision.main(precision.parser().parse_args([*model, "--texts", str(tmp_path / "none")]))


def test_a_reading_is_told_from_the_default_by_its_largest_change_and_its_order():
    columns = pd.MultiIndex.from_product([["llama"], ["soft_ns", "soft_nc"]])
    values = np.arange(2.0 * len(readings.DEFAULTS)).reshape(-1, 2)
    before = pd.DataFrame(values, index=readings.DEFAULTS, columns=columns)
    after = before.copy()
    after.loc["attention", ("llama", "soft_nc")] += 100
    (row,) = readings.reading_rows("clamp: none", before, after)
    assert (row["metric"], row["largest change"]) == ("Soft-NC", "+100.000 (attention)")
    assert row["τ of the order"] == "0.80", "attention passes the last of five: 1 - 2 * 1 / 10"
    assert markdown([row]).splitlines()[0].startswith("| reading | model | metric |")


def test_every_reading_is_a_key_of_the_run_file_or_an_option_of_a_method():
    for change in readings.READINGS.values():
        ((section, values),) = change.items()
        validate(RunFile, {"run": "r", "models": "all", "datasets": "all", section: values}, "run")
    for method, variants in readings.VARIANTS.items():
        for options in variants.values():
            load_method(method).Options.model_validate(options)
