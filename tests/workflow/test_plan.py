"""The plan lists Snakemake's jobs and the tokens that they count."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from helpers.planned_jobs import planned
from helpers.planned_run import SHORT
from pisoft.attribution import load_method
from pisoft.config.loading import load_run
from pisoft.config.validation import read_yaml
from pisoft.cost.plan import plan_run
from pisoft.store.parquet import read_provenance, read_rows

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

CONFIG = Path(__file__).parents[2] / "config"
FIX = "bring scripts/pisoft/cost/plan.py up to date"


@pytest.mark.parametrize("name", ["config", "demo-trust", "paper"])
def test_the_plan_lists_the_jobs_of_snakemake(name, tmp_path, monkeypatch):
    run_file = read_yaml(CONFIG / f"{name}.yaml")
    if name == "demo-trust":
        run_file["sanity_checks"]["labels"] = True
    if name == "paper":
        run_file["max_samples"] = 400  # two shards, and three for the evaluation
        run_file["methods"] = ["random", "reagent", "grad_ellm"]
        run_file["restrictions"]["llama-3.1-70b-instruct"]["methods"] = ["random"]
        run_file["layer_study"]["depths"] = [1, 32]
    with planned(tmp_path, run_file) as dag:
        counts = collections.Counter(job.rule.name for job in dag.jobs)
    assert counts["all"] == 1
    monkeypatch.chdir(tmp_path)
    config = load_run(run_file, [], CONFIG, load_method)
    plan = plan_run(config, Path("results") / name)
    costly = {rule: n for rule, n in counts.items() if not rule.startswith((*SHORT, "all"))}
    assert collections.Counter(job.rule for job in plan.jobs) == costly, FIX


def test_jobs_count_the_planned_tokens(finished, monkeypatch):
    monkeypatch.chdir(finished.folder)
    config = load_run(
        read_yaml(Path("config/tiny.yaml")), ["config/tiny.yaml"], Path("config"), load_method
    )
    results = Path("results/tiny")
    plan = plan_run(config, results)
    jobs = plan.jobs
    (prompts,) = (results / "data/prompts").rglob("*.parquet")
    lengths = [len(row["input_ids"]) for row in read_rows(prompts, "prompts")]
    # Attention once, saliency forward and backward, random never; the shortest also to warm up.
    read = (sum(lengths) + min(lengths)) * (1 + 2)
    assert sum(job.high for job in jobs if job.rule == "attribute") == read
    (lengths_of,) = plan.lengths.values()
    ranked = [job for job in jobs if job.rule == "evaluate_ranking"]
    assert ranked
    for job in ranked:
        counted = read_provenance(results / f"data/ranking/{job.cell}.parquet")
        prefixes = lengths_of.total(lambda sample: max(0, sample.first - 1))
        assert counted["tokens"] == pytest.approx(job.high - prefixes)
