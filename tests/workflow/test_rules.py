"""What every rule must have, read from the parsed workflow."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest
from snakemake.api import OutputSettings, ResourceSettings, SnakemakeApi
from snakemake.settings.types import ConfigSettings, Quietness

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
# An edit of these cannot change a number: they read, check, write, log, or word an error.
RESULT_NEUTRAL = {
    "analysis/__init__",
    "attribution/__init__",
    "catalogue",
    "commandline",
    "config",
    "contracts",
    "data/__init__",
    "display_settings",
    "errors",
    "faithfulness/__init__",
    "hub",
    "lm/__init__",
    "lm/device",
    "plan_settings",
    "planning/__init__",
    "progress",
    "settings",
    "studies",
    "validation",
}


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
        for directive in ("input", "output", "log", "benchmark", "params", "message", "shellcmd"):
            assert getattr(rule, directive), f"rule {name} has no {directive}"
        assert rule.conda_env, f"rule {name} has no conda environment"
        assert {"_cores", "mem_mb", "runtime"} <= set(rule.resources), f"rule {name}: resources"
        assert not rule.script, f"rule {name} uses script:, which re-runs on any touch"
        assert rule.input.get("script"), f"rule {name} does not declare its script"
        assert rule.input.script in rule.shellcmd or "{input.script}" in rule.shellcmd


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


def test_every_project_import_is_an_input_or_cannot_change_a_number(rules):
    for name, rule in rules.items():
        missing = project_imports(SCRIPTS / Path(rule.input.script).name) - declared_modules(rule)
        assert not missing, f"rule {name} does not declare {missing}"


def test_method_files_import_nothing_that_attribute_does_not_declare(rules):
    for file in (SCRIPTS / "pisoft/attribution").glob("*.py"):
        missing = project_imports(file) - declared_modules(rules["attribute"])
        assert not missing, f"{file.name} imports {missing}"


def test_no_declared_module_is_missing_from_disk(rules):
    for name, rule in rules.items():
        for item in rule.input:
            if isinstance(item, str) and item.startswith("scripts/"):
                assert (ROOT / item).is_file(), f"rule {name}: {item}"


def test_paths_hold_no_options():
    for file in (ROOT / "rules").glob("*.smk"):
        paths = "".join(re.findall(r'"results/[^"]*"', file.read_text()))
        wildcards = set(re.findall(r"\{(\w+)\}", paths))
        assert wildcards <= {
            "run", "protocol", "model", "masked_model", "method", "dataset", "file", "RUN",
        }  # fmt: skip


def declared_modules(rule) -> set[str]:
    """Return the modules among a rule's input files."""
    files = [str(item) for item in rule.input if isinstance(item, str)]
    return {name.removeprefix("scripts/pisoft/").removesuffix(".py") for name in files}


def project_imports(file: Path) -> set[str]:
    """Return what a file imports of the package, through others too, less the neutral modules."""
    found: set[str] = set()
    waiting = [file]
    while waiting:
        for node in ast.walk(ast.parse(waiting.pop().read_text(encoding="utf-8"))):
            for module in imported_modules(node):
                if module in found or module in RESULT_NEUTRAL:
                    continue
                found.add(module)
                waiting.append(SCRIPTS / "pisoft" / f"{module}.py")
    return found


def imported_modules(node: ast.AST) -> list[str]:
    """Return the package's modules that one statement imports, as paths without ending."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("pisoft"):
        return []
    base = "/".join(node.module.split(".")[1:])
    paths = [base, *(f"{base}/{alias.name}".lstrip("/") for alias in node.names)]
    candidates = [f"{path}{end}" for path in paths if path for end in ("", "/__init__")]
    return [name for name in candidates if (SCRIPTS / "pisoft" / f"{name}.py").is_file()]
