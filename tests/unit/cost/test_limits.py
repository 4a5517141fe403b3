"""Runtime and memory requests of batch jobs, from the plan."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pisoft.attribution import load_method
from pisoft.config.loading import load_run
from pisoft.config.validation import read_yaml
from pisoft.cost import limits
from pisoft.cost.limits import Limits, RunLimits
from pisoft.cost.plan import LOADING_RULES, plan_run
from pisoft.errors import BenchmarkError

ROOT = Path(__file__).parents[3]
NOWHERE = Path("results/nowhere")
H100 = 400e12
BIG = "llama-3.1-70b-instruct"
EIGHT = "llama-3.1-8b-instruct"
FEW = {"methods": ["random", "saliency", "reagent"], "layer_study": None}
HUB = {"kind": "hub", "repository": "nobody/nothing"}


@pytest.fixture
def paper(monkeypatch, tmp_path):
    """Return a function: the paper's run with few methods, and with keys changed."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))

    def make(**changes):
        file = Path("config/paper.yaml")
        return load_run(read_yaml(file) | FEW | changes, [str(file)], Path("config"), load_method)

    return make


def with_model(paper, **entry):
    """Return the paper's run with one more model."""
    catalogue = {"models": {"mine": {"label": "Mine", "source": HUB, **entry}}}
    return paper(models=["mine"], restrictions={}, layer_study=None, catalogue=catalogue)


def test_limits_leave_a_margin(monkeypatch):
    monkeypatch.setattr(limits, "RUNTIME_SAFETY", 4)
    assert limits.runtime_limit(690) == 4 * 690 / 60
    assert limits.runtime_limit(90) == limits.LEAST_RUNTIME
    assert limits.memory_limit(16e9) == 1.3 * 16_000 + 3000, "weights and libraries"


def test_every_job_has_its_plan(paper):
    config = paper()
    run = RunLimits(config, NOWHERE, H100)
    run.check()
    plan = plan_run(config, None)
    jobs = [job for job in plan.jobs if job.rule in LOADING_RULES]
    assert len(jobs) > 500
    for job in jobs:
        seconds = plan.seconds(job, H100)
        minutes = max(limits.LEAST_RUNTIME, math.ceil(limits.RUNTIME_SAFETY * seconds / 60))
        assert run.for_job(job.rule, job.cell).runtime == minutes, job.cell
    soft = [job for job in jobs if job.rule == "evaluate_soft"]
    soft.sort(key=lambda job: plan.seconds(job, H100))
    minutes = [run.for_job(job.rule, job.cell).runtime for job in soft]
    assert minutes == sorted(minutes), "a longer job gets more"
    assert minutes[0] < minutes[-1]
    slower = RunLimits(config, NOWHERE, H100 / 4)
    assert slower.for_job("evaluate_soft", soft[-1].cell).runtime > 3 * minutes[-1]


def test_memory_holds_one_file_for_gpu_jobs_and_all_weights_for_cpu_jobs(paper):
    weights = 70.55e9  # of https://huggingface.co/meta-llama/Llama-3.1-70B-Instruct
    of_gpu, four_bit, converting, of_cpu, attributing = (
        RunLimits(config, NOWHERE, H100).for_job(rule, cell).mem_mb * 1e6
        for config, rule, cell in (
            (paper(), "generate", f"{EIGHT}/sst2/0-2000"),
            (paper(), "generate", f"{BIG}/sst2/0-2000"),
            (paper(), "convert_model", BIG),
            (paper(resources={BIG: {"gpu": 0}}), "generate", f"{BIG}/sst2/0-2000"),
            (paper(resources={BIG: {"gpu": 0}}), "attribute", f"{BIG}/saliency/sst2/0-2000"),
        )
    )
    assert 1.1 * 5e9 < of_gpu < 12e9, "its files are at most 5 GB"
    quantised = 4.5 / 8 * weights  # 4-bit weights are one file
    assert 1.1 * quantised < four_bit < 1.5 * quantised
    assert converting > 1.1 * (5e9 + quantised), "copied back from the GPU"
    assert of_cpu > 1.1 * quantised
    assert attributing > 1.1 * (quantised + 4 * weights), "a float32 copy"


def test_jobs_without_a_model_are_planned_without_one(paper):
    run = RunLimits(paper(), NOWHERE, H100)
    random, saliency = (
        run.for_job("attribute", f"{BIG}/{name}/sst2/0-2000") for name in ("random", "saliency")
    )
    assert random == Limits(limits.LEAST_RUNTIME, limits.memory_limit(0))
    assert saliency.mem_mb > random.mem_mb


def test_explicit_resources_override_the_plan(paper):
    config = paper(resources={BIG: {"runtime": 7, "mem_mb": 500}})
    run = RunLimits(config, NOWHERE, H100)
    assert run.for_job("evaluate_soft", f"dynamic/{BIG}/random/sst2/0-216") == Limits(7, 500)
    half = RunLimits(paper(resources={BIG: {"runtime": 7}}), NOWHERE, H100)
    assert half.for_job("generate", f"{BIG}/sst2/0-2000").runtime == 7
    assert half.for_job("generate", f"{BIG}/sst2/0-2000").mem_mb > 5000


def test_jobs_on_a_cpu_or_an_unknown_gpu_get_an_hour(paper):
    config = paper()
    assert RunLimits(config, NOWHERE, None).for_job("generate", f"{BIG}/sst2/0-2000").runtime == 60
    config = paper(resources={BIG: {"gpu": 0}})
    assert RunLimits(config, NOWHERE, H100).for_job("generate", f"{BIG}/sst2/0-2000").runtime == 60


@pytest.mark.follows("or set resources.runtime and resources.mem_mb of model '…'")
def test_a_known_gpu_speed_requires_a_known_model_size(paper):
    unknown = with_model(paper, resources={"gpu": 1})
    with pytest.raises(BenchmarkError) as refused:
        RunLimits(unknown, NOWHERE, H100).check()
    assert "model 'mine': source.parameters: not set" in str(refused.value)
    assert "or set resources.runtime and resources.mem_mb of model 'mine'" in str(refused.value)

    here = RunLimits(unknown, NOWHERE, None)
    here.check()
    assert here.for_job("generate", "mine/sst2/0-2000") == limits.UNPLANNED
    asked = {"gpu": 1, "runtime": 90, "mem_mb": 9000}
    stated = RunLimits(with_model(paper, resources=asked), NOWHERE, H100)
    stated.check()
    assert stated.for_job("generate", "mine/sst2/0-2000") == Limits(90, 9000)


def test_inconsistent_files_leave_the_estimate_unchanged(paper, tmp_path):
    """They are about to be recomputed and must not stop a run."""
    config = paper()
    prompts = tmp_path / "data/prompts" / BIG / "sst2.parquet"
    prompts.parent.mkdir(parents=True)
    prompts.write_bytes(b"PAR1 no longer a Parquet file PAR1")
    broken, none = RunLimits(config, tmp_path, H100), RunLimits(config, NOWHERE, H100)
    cell = f"dynamic/{BIG}/random/sst2/0-216"
    broken.check()
    assert broken.for_job("evaluate_soft", cell) == none.for_job("evaluate_soft", cell)
