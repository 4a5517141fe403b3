"""Requirements of every rule, checked in the parsed workflow."""

from __future__ import annotations

import inspect
import math
import shlex
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml
from snakemake.iocontainers import Wildcards

from helpers.workflow_rules import parsed_rules
from pisoft.attribution import load_method
from pisoft.config.cells import Cell
from pisoft.config.jobs.summaries import ResamplingJob
from pisoft.config.loading import load_run
from pisoft.config.validation import read_yaml
from pisoft.cost.limits import LEAST_RUNTIME, RUNTIME_SAFETY
from pisoft.cost.plan import LOADING_RULES, plan_run
from pisoft.views.registry import ENDINGS, displays_in
from pisoft.workflow.commandline import summary_module

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
MAIN = "figures/pi_curves/"  # the front page shows it
HUB_WILDCARDS = {"kind", "repository", "revision"}
CELL_WILDCARDS = {*Cell._fields, "masked_model", "part"}
WILDCARDS = CELL_WILDCARDS | HUB_WILDCARDS


DEMOS = [ROOT / f"config/{name}.yaml" for name in ("config", "demo-trust")]


@pytest.fixture(scope="module", params=DEMOS, ids=lambda file: file.stem)
def rules(request):
    """Return the rules of an embedded run by name, without the target rule."""
    return parsed_rules([request.param])


def requested(rule, resource, cell, attempt=1):
    """Return the amount of a resource that a cell's job requests."""
    values = dict(zip(("protocol", "model", "method", "part"), cell, strict=True))
    wildcards = {key: name for key, name in values.items() if key in rule.wildcard_names}
    return rule.resources[resource].evaluate(Wildcards(fromdict=wildcards), attempt=attempt).value


def test_every_rule_is_complete(rules):
    for name, rule in rules.items():
        for directive in ("output", "log", "benchmark", "params", "message", "shellcmd"):
            assert getattr(rule, directive), f"rule {name} has no {directive}"
        assert rule.conda_env, f"rule {name} has no conda environment"
        assert {"_cores", "mem_mb", "runtime"} <= set(rule.resources), f"rule {name}: resources"
        assert not rule.script, f"rule {name} uses script:, which re-runs on any touch"


def test_every_job_depends_on_its_settings_and_its_code(rules):
    scripts = set()
    for name, rule in rules.items():
        params = dict(rule.params.items())
        assert {"command", "settings", "code"} <= set(params), f"rule {name}"
        assert rule.shellcmd.startswith("{params.command} "), f"rule {name}"
        assert "--settings {params.settings:q} " in rule.shellcmd, f"rule {name}"
        interpreter, script = shlex.split(params["command"](None, None))
        assert interpreter == sys.executable
        scripts.add(Path(script))
    by_hand = ["plan", "check_run", "check_run_file", "check_scores", "compare_runs", "unlock"]
    scripts |= {SCRIPTS / f"{name}.py" for name in by_hand}
    assert scripts == {*SCRIPTS.glob("*.py")}, "a script is unused or missing"


def test_code_is_not_an_input(rules):
    """Paths of code differ between clones, which would re-run everything."""
    for name, rule in rules.items():
        files = [str(item) for item in rule.input if isinstance(item, str)]
        assert not [file for file in files if not file.startswith("results/")], f"rule {name}"


def test_inputs_outputs_and_params_are_named(rules):
    for name, rule in rules.items():
        for items in (rule.input, rule.output, rule.params):
            named = {index for index, _ in _positions(items)}
            assert named == set(range(len(items))), f"rule {name} has an unnamed item"


def _positions(items):
    """Yield the position and name of every item that has a name."""
    for name, (first, last) in items._get_names():
        for index in range(first, first + 1 if last is None else last):
            yield index, name


def test_rules_that_load_a_model_use_its_resources(rules):
    for name in ("generate", "attribute", "evaluate_soft", "evaluate_ranking"):
        assert "gpu" in rules[name].resources


def test_retried_model_jobs_get_more_memory_and_time(rules):
    """A job may have hit a limit of memory or time; GPUs and threads would change results."""
    cell = ("dynamic", "demo-llama", "random", "demo-sentiment")
    for name in ("generate", "attribute", "evaluate_soft", "evaluate_ranking"):
        for key in ("mem_mb", "runtime"):
            first, second = (requested(rules[name], key, cell, attempt) for attempt in (1, 2))
            assert second == 2 * first > 0, f"{name}: {key}"


def test_gpu_jobs_request_the_time_planned_for_the_throughput(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    file = tmp_path / "paper.yaml"
    changes = {"models": ["llama-3.1-8b-instruct"], "datasets": ["sst2"], "operators": {}}
    changes |= {"methods": ["random", "saliency"], "restrictions": {}, "layer_study": None}
    file.write_text(yaml.safe_dump(read_yaml(Path("config/paper.yaml")) | changes))
    shard = ("dynamic", "llama-3.1-8b-instruct", "saliency", "sst2/0-2000")
    config = load_run(read_yaml(file), [str(file)], Path("config"), load_method)
    plan = plan_run(config, None)
    jobs = {(job.rule, job.cell): job for job in plan.jobs}
    cells = {
        "generate": "{1}/{3}",
        "attribute": "{1}/{2}/{3}",
        "evaluate_soft": "{0}/{1}/{2}/{3}",
        "inspect_inputs": "{0}/{1}/{3}",
        "evaluate_ranking": "{1}/{2}/{3}",
    }
    assert {*cells, "convert_model"} == set(LOADING_RULES)
    for throughput in (400, 1):
        rules = parsed_rules([file], default_resources={"throughput": throughput})
        for name, pattern in cells.items():
            job = jobs[name, pattern.format(*shard)]
            seconds = plan.seconds(job, throughput * 1e12)
            minutes = max(LEAST_RUNTIME, math.ceil(RUNTIME_SAFETY * seconds / 60))
            assert requested(rules[name], "runtime", shard) == minutes, name
            assert requested(rules[name], "runtime", shard, attempt=2) == 2 * minutes, name


def test_summaries_that_resample_read_the_clusters(rules):
    summaries = {n: r for n, r in rules.items() if "summarise_results" in r.params.command("", "")}
    for name, rule in summaries.items():
        module = summary_module(rule.params.name)
        assert "clusters" in dict(rule.input.items())
        resamples = issubclass(get_type_hints(module.summaries)["settings"], ResamplingJob)
        assert "files.clusters()" in inspect.getsource(module) or not resamples, f"rule {name}"


def test_paths_hold_no_options(rules):
    for name, rule in rules.items():
        assert rule.wildcard_names <= WILDCARDS, f"rule {name}"


def test_displays_are_listed_nowhere_else():
    """Every table or figure is one decorated function; neither rules nor scripts name any."""
    files = [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk"), *SCRIPTS.glob("*_results.py")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for room in ENDINGS:
        assert not [
            name for name in displays_in(room) if f"{room}/{name}" in text.replace(MAIN, "")
        ]


def test_the_embedded_runs_show_every_table_and_figure(tmp_path):
    """Two metrics are off in all of them; one key switches both on."""
    switch = tmp_path / "metrics.yaml"
    keys = "{counterfactuals: records, answer_deletion: true}"
    switch.write_text(f"ranking: {keys}\n", encoding="utf-8")
    runs = [*([file] for file in DEMOS), [ROOT / "config/context-use.yaml"]]
    runs.append([ROOT / "config/demo-trust.yaml", switch])
    rules = (rule for files in runs for rule in parsed_rules(files).values())
    files = (Path(str(file)).parts[2:4] for rule in rules for file in rule.output)
    shown = {tuple(parts) for parts in files if parts[0] in ENDINGS}
    every = {(room, name) for room in ENDINGS for name in displays_in(room)}
    assert every <= {(room, name.partition(".")[0]) for room, name in shown}


def test_editing_a_figure_redraws_no_other(rules):
    """Figures share only the settings and their style."""
    codes = {name: rule.params.code for name, rule in rules.items() if name.startswith("plot_")}
    assert set(codes) <= {f"plot_{name}" for name in displays_in("figures")}
    assert len(set(codes.values())) == len(codes)
