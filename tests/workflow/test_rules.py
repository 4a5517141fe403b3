"""What every rule must have, read from the parsed workflow."""

from __future__ import annotations

import os
import pkgutil
import shlex
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.api import OutputSettings, ResourceSettings, SnakemakeApi
from snakemake.settings.types import ConfigSettings, Quietness

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
HUB_WILDCARDS = {"kind", "repository", "revision"}
WILDCARDS = {"protocol", "model", "masked_model", "method", "dataset", "part"} | HUB_WILDCARDS


@pytest.fixture(scope="module")
def rules():
    """Return the rules of the embedded default by name, the target rule left out."""
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
            workflow = api.workflow(
                resource_settings=ResourceSettings(cores=1),
                config_settings=ConfigSettings(),
                snakefile=ROOT / "Snakefile",
            )._workflow
            return {rule.name: rule for rule in workflow.rules if rule.name != "all"}
    finally:
        os.chdir(before)


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
        given = dict(rule.params.items())
        assert {"command", "settings", "code"} <= set(given), f"rule {name}"
        assert rule.shellcmd.startswith("{params.command} "), f"rule {name}"
        assert "--settings {params.settings:q} " in rule.shellcmd, f"rule {name}"
        interpreter, script = shlex.split(given["command"](None, None))
        assert interpreter == sys.executable
        scripts.add(Path(script))
    kept = {SCRIPTS / f"{name}.py" for name in ("plan", "make_schema", "make_readme", "unlock")}
    assert scripts | kept == set(SCRIPTS.glob("*.py")), "a script that no rule calls, or none has"


def test_code_is_no_input(rules):
    """Its paths would differ between clones, which would compute everything again."""
    for name, rule in rules.items():
        files = [str(item) for item in rule.input if isinstance(item, str)]
        assert not [file for file in files if not file.startswith("results/")], f"rule {name}"


def test_everything_in_a_rule_has_a_name(rules):
    for name, rule in rules.items():
        for items in (rule.input, rule.output, rule.params):
            named = {index for index, _ in _positions(items)}
            assert named == set(range(len(items))), f"rule {name} has an unnamed item"


def _positions(items):
    """Yield the position and name of every item that has a name."""
    for name, (first, last) in items._get_names():
        for index in range(first, first + 1 if last is None else last):
            yield index, name


def test_rules_that_load_a_model_take_its_resources(rules):
    for name in ("generate", "attribute", "evaluate_soft", "evaluate_ranking"):
        assert "gpu" in rules[name].resources


def test_a_model_s_job_that_is_tried_again_may_take_more(rules):
    """What it failed from may be a limit of memory or time; GPUs and threads change results."""
    wildcards = SimpleNamespace(model="demo-llama")
    for name in ("generate", "attribute", "evaluate_soft", "evaluate_ranking"):
        resources = rules[name].resources
        for key in ("mem_mb", "runtime"):
            first, second = (resources[key].evaluate(wildcards, attempt=n).value for n in (1, 2))
            assert second == 2 * first, f"{name}: {key}"


def test_paths_hold_no_options(rules):
    for name, rule in rules.items():
        assert rule.wildcard_names <= WILDCARDS, f"rule {name}"


def test_adding_a_display_needs_no_other_line(rules):
    """Every table or figure is a module and a rule of its name; nothing else lists them."""
    for room, script, function in (("tables", "tabulate", "table"), ("figures", "plot", "plot")):
        package = import_module(f"pisoft.{room}")
        names = {found.name for found in pkgutil.iter_modules(package.__path__)}
        modules = {n for n in names if hasattr(import_module(f"pisoft.{room}.{n}"), function)}
        assert {f"{script}_{name}" for name in modules} == {
            name for name in rules if name.startswith(f"{script}_")
        }
