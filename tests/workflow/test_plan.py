"""The plan lists the jobs that Snakemake lists, and the run leaves what it is compared with."""

from __future__ import annotations

import collections
import re
import shutil
from pathlib import Path

import pytest

from pisoft.attribution import load_method
from pisoft.config.loading import load_run
from pisoft.config.slices import PlanSlice
from pisoft.config.validation import read_yaml
from pisoft.contracts import read_rows
from pisoft.planning.plan import plan_run
from planning import SHORT

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

CONFIG = Path(__file__).parents[2] / "config"
FIX = "bring scripts/pisoft/planning/plan.py up to date"


@pytest.mark.parametrize("name", ["tiny", "config", "labels", "paper"])
def test_the_plan_lists_the_jobs_that_snakemake_lists(project, name, monkeypatch):
    shutil.copyfile(
        CONFIG / "catalogue/methods.yaml", project.folder / "config/catalogue/methods.yaml"
    )
    demo = (project.folder / "config/config.yaml").read_text(encoding="utf-8")
    project.write("config/labels.yaml", demo.replace("labels: false", "labels: true"))
    run_file = f"config/{name}.yaml"
    listed = project.snakemake("--configfile", run_file, "--dry-run", "--forceall").stdout
    counts = {rule: int(n) for rule, n in re.findall(r"^(\w+) +(\d+)$", listed, flags=re.M)}
    assert counts.pop("total") > counts.pop("all") == 1
    monkeypatch.chdir(project.folder)
    config = load_run(read_yaml(Path(run_file)), [run_file], Path("config"), load_method)
    plan = plan_run(PlanSlice.of(config), Path("results") / name)
    costly = {rule: count for rule, count in counts.items() if not rule.startswith(SHORT)}
    assert collections.Counter(job.rule for job in plan.jobs) == costly, FIX


def test_a_run_is_compared_with_its_plan(finished):
    project = finished
    results = project.folder / "results/tiny"
    rows = {row["rule"]: row for row in read_rows(results / "data/summary/cost.parquet", "cost")}
    for rule, row in rows.items():
        assert row["timed_jobs"] == row["jobs"] > 0, rule
        assert row["seconds"] > 0, rule
    (prompts,) = (results / "data/prompts").rglob("*.parquet")
    lengths = [len(row["input_ids"]) for row in read_rows(prompts, "prompts")]
    read = sum(lengths) * (1 + 2)  # attention once, saliency forward and backward, random never
    assert rows["attribute"]["tokens_high"] == read
    for kind in ("forwards", "tokens"):
        counted = rows["evaluate_ranking"][f"counted_{kind}"]
        assert counted == pytest.approx(rows["evaluate_ranking"][f"{kind}_high"])
    shutil.rmtree(results / "logs")
    assert project.pending() == set(), "benchmark files are not needed"
    project.snakemake("--cores", "1", "--forcerun", "summarise_cost")
    rows = read_rows(results / "data/summary/cost.parquet", "cost")
    assert {row["seconds"] for row in rows} == {None}
    assert "without a benchmark file" in (results / "tables/cost.html").read_text()
