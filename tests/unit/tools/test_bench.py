"""Every bench runs at toy size and counts FLOPs and costs correctly."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from math import isfinite, sqrt

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import combinations
import draw_modes
import draws
import peers
import pisoft
import precision
import readings
import start_up
from gpu import timed_methods
from helpers.loaded_models import local_model
from helpers.preloaded_python import interpreter
from helpers.random_models import model_and_network, save_random_llama
from helpers.tiny_tokenizers import llama_tokenizer
from measuring import forward_flops, row
from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.attribution.engine import attribute_block, scores_row
from pisoft.config.evaluation import DrawSettings
from pisoft.config.jobs.cells import EvaluateJob
from pisoft.config.run_file import RunFile
from pisoft.config.validation import validate
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.masks import measured_pi
from pisoft.faithfulness.soft import METRICS
from pisoft.models.attention import AttentionRecorder, AttentionReplay
from pisoft.models.generation import continue_greedily
from pisoft.store.parquet import provenance, write_rows

pytestmark = pytest.mark.slow

TEXTS = ("a wonderful film", "the dull ending hurt", "storms had damaged the old station")
MODEL = "llama-v0.3"
CELL = f"{MODEL}/random/why.parquet"


def check_rows(rows):
    """Check the fields that readers of a report rely on."""
    assert rows
    assert len({line["name"] for line in rows}) == len(rows)
    for line in rows:
        assert isfinite(line["value"])
        assert isfinite(line["ratio"])
        assert (line["met"] is None) == (line["aim"] is None)


def run_bench(bench, output, *options):
    """Run a bench in this process and return what it writes."""
    bench.main(bench.parser().parse_args([*options, "--output", str(output)]))
    return json.loads(output.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "options", "rows"),
    [
        ("evaluation", "--lengths 7 48 --draws 5 --loop-draws 3 --repetitions 1", 2 * 2 * 4),
        ("gpu", "--cases toy toy-4bit --device cpu", 2 * (len(timed_methods()) + 7 + 4)),
        ("aggregation", "--models 1 --methods 2 --datasets 2 --samples 5", None),
        ("scheduler", "--settings 100/1s 100/1s\tone-timer --idle 6 --jobs 0", 2),
    ],
)
def test_a_bench_runs(tmp_path, monkeypatch, name, options, rows):
    if name == "aggregation":  # a dozen jobs that then start at once
        monkeypatch.setattr(sys, "executable", interpreter())
    monkeypatch.setattr("evaluation.REAL_SHAPE", "7m")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)  # otherwise the folder of the first call is kept
    options = [option.replace("\t", " ") for option in options.split(" ")]
    content = run_bench(importlib.import_module(name), tmp_path / "report/bench.json", *options)
    lines = content["rows"] if isinstance(content, dict) else content
    check_rows(lines)
    assert rows is None or len(lines) == rows
    assert [path.name for path in tmp_path.iterdir()] == ["report"], "temporary files are deleted"


def test_the_attribution_bench_runs_with_the_makefiles_arguments(root, tmp_path):
    output = tmp_path / "attribution.json"
    options = ["--methods", "attention", "--repetitions", "1", "--output", str(output)]
    command = [sys.executable, "tools/bench/attribution.py", *options]
    paths = {**os.environ, "PYTHONPATH": "scripts:tests"}
    subprocess.run(command, cwd=root, env=paths, check=True, capture_output=True)
    check_rows(json.loads(output.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of one cell with three samples of two steps each."""
    run = tmp_path_factory.mktemp("results") / "toy"
    save_random_llama(run / "data/models" / MODEL, llama_tokenizer(), num_hidden_layers=2)
    model = pisoft.load(run / "data/models" / MODEL, device="cpu")
    prompts = [pisoft.prompt(model, [{"role": "user", "content": text}]) for text in TEXTS]
    answers = list(continue_greedily(model, prompts, 500, max_new_tokens=3, step_interval=2))
    answers.sort(key=lambda answer: [p["sample_id"] for p in prompts].index(answer["sample_id"]))
    method = load_method("random")
    pairs = list(zip(prompts, answers, strict=True))
    scores = attribute_block(method(method.Options(), Context(seed=1)), model, pairs)
    settings = EvaluateJob(
        model=local_model(name=MODEL), protocol="dynamic", target="label", seed=1, block_size=2,
        evaluation=DrawSettings(pi_grid=(0.2, 0.5, 0.8)), first_sample=0, token_budget=None,
        compile=False,
    )  # fmt: skip
    origin = provenance(settings.model_dump(mode="json"))
    for kind, path, rows in (
        ("prompts", f"prompts/{MODEL}/why.parquet", prompts),
        ("generations", f"generations/{MODEL}/why.parquet", answers),
        ("attributions", f"attributions/{CELL}", list(map(scores_row, scores))),
        ("soft", f"soft/dynamic/{CELL}", []),
    ):
        write_rows(run / "data" / path, kind, rows, origin)
    return run


def test_the_draws_bench_runs(finished, tmp_path, capsys):
    options = ["--run", str(finished), "--repetitions", "3", "--half-widths", "0.5", "0.01"]
    rows = run_bench(draws, tmp_path / "draws.json", *options)
    check_rows(rows)
    forwards = 6 * (2 * 123 + 3 * 123 + 3 * 11)  # steps, and repetitions of 1 + 2 + 4 · 2 · K
    assert f"{MODEL}, random, why: {forwards} forwards for 6 steps" in capsys.readouterr().err


def test_the_precision_bench_detects_rounded_logits(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "TYPES", ("float32", "bfloat16"))
    texts = tmp_path / "texts.tsv"
    texts.write_text("\n".join(f"{text}\t1" for text in TEXTS), encoding="utf-8")
    options = ["--model-folder", str(finished / "data/models" / MODEL), "--texts", str(texts)]
    content = run_bench(precision, tmp_path / "precision.json", *options)
    rows = {row["type"]: row for row in content["against float64"]}
    distance = {kind: float(row["a draw's distance"]) for kind, row in rows.items()}
    assert distance["float32"] < 1e-5 < distance["bfloat16"]
    assert rows["bfloat16, logits rounded"] != rows["bfloat16"]
    agreement = {row["method"]: row for row in content["scores in bfloat16 and float32"]}
    assert {"saliency", "integrated_gradients", "occlusion"} < set(agreement)
    assert not {"random", "reagent", "inseq"} & set(agreement)
    means = [float(row["mean"]) for row in agreement.values()]
    assert 0 < min(means) < max(means) <= 1


def test_combined_readings_are_sorted_by_distance_from_the_paper(finished, tmp_path, monkeypatch):
    few = {"scope": ("content", "all"), "mask": ("token",), "normalisation": ("minmax", "rank")}
    monkeypatch.setattr(combinations, "READINGS", {**few, "step_scores": ("own", "aggregated")})
    options = ["--run", str(finished), "--draws", "2", "--samples", "3"]
    paper, *lines = run_bench(combinations, tmp_path / "c.json", *options)["combinations"]
    assert (paper["scope"], paper["Soft-NS"], paper["off by a factor of"]) == ("paper", 0.132, 1)
    assert len({tuple(line.values())[:5] for line in lines}) == len(lines) == 2 * 2 * 2 * 2
    assert {line["n"] for line in lines} == {3}
    off = [line["off by a factor of"] for line in lines]
    assert off == sorted(off)
    for line in lines:
        factors = [line["Soft-NS"] / 0.132, line["Soft-NC"] / 0.005]
        expected = sqrt(np.prod([max(x, 1 / x) for x in factors]))
        assert line["off by a factor of"] == pytest.approx(expected)


def test_step_numbers_equal_those_of_their_draws():
    row = {"status": "ok", "h0": 0.5, "achieved": 0.25, "perturbable": 8}
    row |= {"ns_distances": [0.1, 0.7], "nc_distances": [0.2, 0.4]}
    assert combinations.step_numbers(row, 1) == pytest.approx([0.4, 0.6, 2])
    assert combinations.step_numbers(row, 2) == pytest.approx([0.48, 0.4, 2])
    assert np.isnan(combinations.step_numbers({"status": "nonfinite_logits"}, 1)).all()


def test_the_peers_bench_compares_every_prompt_and_names_failed_peers(tmp_path, capsys):
    ours = [np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 1.0])]
    row = peers.compared(peers.PAIRS[0], ours, [[1.0, 2.0, 4.0], [0.0, 1.0, 2.0]])
    assert (row["largest difference"], row["Spearman's ρ"]) == ("5.0e-01", "0.5000")
    options = ["--python", sys.executable]
    with pytest.raises(BenchmarkError, match=r"^lxt, AttnLRP: ModuleNotFoundError: .*'lxt'$"):
        run_bench(peers, tmp_path / "peers.json", *options)
    with pytest.raises(BenchmarkError, match=r"^--python: .*; `make bench-peers` installs it$"):
        run_bench(peers, tmp_path / "peers.json", "--python", str(tmp_path / "none"))


def test_the_start_up_bench_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(start_up, "model_jobs", lambda *_: iter(()))  # of a whole finished run
    monkeypatch.setattr(start_up, "IMPORTS_ONLY", ("tabulate_results",))
    check_rows(run_bench(start_up, tmp_path / "start_up.json", "--repetitions", "1"))


def test_a_reading_reports_its_largest_change_and_rank_correlation():
    columns = pd.MultiIndex.from_product([["llama"], ["soft_ns", "soft_nc"]])
    values = np.arange(2.0 * len(readings.DEFAULTS)).reshape(-1, 2)
    before = pd.DataFrame(values, index=readings.DEFAULTS, columns=columns)
    after = before.copy()
    after.loc["attention", ("llama", "soft_nc")] += 100
    (line,) = readings.reading_rows("clamp: none", before, after)
    assert (line["metric"], line["largest change"]) == ("Soft-NC", "+100.000 (attention)")
    assert line["τ of the order"] == "0.80", "attention overtakes the last of five: 1 - 2 * 1 / 10"


def test_every_reading_is_a_run_file_key_or_method_option():
    for change in readings.READINGS.values():
        validate(RunFile, {"run": "r", "models": "all", "datasets": "all", **change}, "run")
    for method, variants in readings.VARIANTS.items():
        for options in variants.values():
            load_method(method).Options.model_validate(options)


@pytest.mark.parametrize(("protocol", "products"), [("dynamic", 2), ("fixed", 1)])
@pytest.mark.parametrize("prefix", [0, 4])
def test_flops_equal_those_of_the_matrix_products(prefix, protocol, products):
    model, _ = model_and_network("llama-gqa")
    length = 9
    cache = model.read_prefix(model.embed(torch.arange(prefix)[None]))
    embeddings, last = model.embed(torch.arange(length)[None]), torch.tensor([[length - 1]])
    recorder = AttentionRecorder(layers=range(model.layers), by_maps=True)
    model.next_token_logits(embeddings, last, prefix=cache, probe=recorder)
    replay = AttentionReplay([(slice(None), recorder.inputs)]) if protocol == "fixed" else None
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model.next_token_logits(embeddings, last, prefix=cache, probe=replay)
    weights = counter.get_flop_counts()["Global"][torch.ops.aten.mm]
    pairs = [(q, k) for q in range(prefix, prefix + length) for k in range(q + 1)]
    product = model.layers * 4 * len(pairs) * 2 * 8  # 4 heads of width 8
    assert forward_flops(model, length, protocol, prefix) == weights + products * product


def test_targets_are_minima_or_ranges():
    def met(ratio, aim):
        return row("", 0, "", ratio, aim=aim)["met"]

    assert [met(ratio, 2.0) for ratio in (1.9, 2.0, 9.0)] == [False, True, True]
    assert [met(0.92, (0.93, 0.97)), met(0.93, (0.93, 0.97))] == [False, True]
    assert [met(0.97, (0.93, 0.97)), met(0.98, (0.93, 0.97))] == [True, False]


def pool_of(areas):
    level = np.repeat(areas[:, :, None], 3, axis=2)  # curves without slope, over a span of 1
    return draws.Pool((0.0, 0.5, 1.0), dict.fromkeys(METRICS, level))


def test_costs_and_widths_follow_from_the_variances(monkeypatch):
    """Two samples, 2 apart, have variance 2, to which single draws of ±1 add 2 more."""
    for name in ("INTERVALS", "BUDGETED_CELLS", "SPARSE_SEEDS"):  # of coverages, not read here
        monkeypatch.setattr(draw_modes, name, 10)
    samples = np.array([[0.0], [2.0]])
    sign = np.array([1.0, -1.0])[:, None, None]
    little = 1e-6 * np.tile([1.0, -1.0, 0.0], 5)  # without variance the denominator would be 0
    paper = pool_of(little * sign + samples)
    latin = pool_of(1e-6 * sign + np.zeros(15) + samples)
    few = pool_of(np.broadcast_to(sign, (2, 2, 1)) + samples)
    rows = list(draws.cell_rows("c", [paper, latin, few], np.arange(2), 3, [0.1]))
    ratios = {line["name"]: line["ratio"] for line in rows}
    forwards = 11 / 123
    assert ratios["c: efficient: forwards per sample"] == pytest.approx(forwards)
    assert ratios["c: sparse, 2 π per step: forwards per sample"] == pytest.approx(9 / 123)
    assert ratios["c, ns: efficient: half-width, 2 samples"] == pytest.approx(sqrt((2 + 2) / 2))
    cost = ratios["c, ns: efficient: forwards for the same interval, per sample of paper's"]
    assert cost == pytest.approx(forwards * 2)


SPARSE_GRID = np.linspace(0.05, 0.95, 19)
SAMPLE_OF_STEP = np.repeat(np.arange(100), np.tile([1, 2], 50))


def noisy_curves(generator, repetitions):
    """Samples differ in level, steps in slope; every draw at every π has noise, (R, S, 19)."""
    level = generator.normal(0, 0.1, 100)[SAMPLE_OF_STEP, None]
    slope = generator.normal(1, 0.1, (SAMPLE_OF_STEP.size, 1)) * SPARSE_GRID
    return level + slope + generator.normal(0, 0.5, (repetitions, SAMPLE_OF_STEP.size, 19))


def area_under_means(curves, count, seed):
    """The estimate of a run that measures each step at `count` π."""
    total, weight = np.zeros((2, 19))
    index = np.arange(SAMPLE_OF_STEP.size) - np.searchsorted(SAMPLE_OF_STEP, SAMPLE_OF_STEP)
    for curve, sample, step in zip(curves, SAMPLE_OF_STEP.tolist(), index.tolist(), strict=True):
        at = measured_pi(19, count, seed, (sample, step))
        share = 1 / (sample == SAMPLE_OF_STEP).sum()  # a sample counts once
        total[at] += share * curve[at]
        weight[at] += share
    return np.trapezoid(total / weight, SPARSE_GRID)


def test_intervals_of_two_pi_match_the_spread_of_simulated_runs(monkeypatch):
    generator = np.random.default_rng(2)
    runs = [area_under_means(noisy_curves(generator, 1)[0], 2, seed) for seed in range(300)]
    curves = noisy_curves(generator, 5)
    pool = draws.Pool(tuple(SPARSE_GRID), dict.fromkeys(METRICS, curves[..., None]))
    truth = draws.population([pool], draw_modes.step_weights(SAMPLE_OF_STEP), "ns")
    between = dict.fromkeys(METRICS, truth.var(ddof=1))
    mode = draw_modes.sparse_mode(pool, 2, SAMPLE_OF_STEP, between)
    width = draws.interval_half_width(between["ns"], mode.variances["ns"], 100)
    assert width == pytest.approx(1.98 * np.std(runs), rel=0.1)
    assert mode.forwards == (3 + 2 * (1 + 2)) * 1.5
    assert 0.93 < draws.coverage(mode.resampled("ns"), truth.mean()) < 0.97
    monkeypatch.setattr(draw_modes, "SPARSE_SEEDS", 10)  # for any seed, a step has all π
    every_pi = draw_modes.sparse_mode(pool, 19, SAMPLE_OF_STEP, between)
    narrow = draws.interval_half_width(between["ns"], every_pi.variances["ns"], 100)
    assert narrow < 0.7 * width
