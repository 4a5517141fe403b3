"""Scripts shared by all modules of a package: refused arguments, and use by the rules."""

from __future__ import annotations

import pkgutil
import runpy
from importlib import import_module

import pytest

from helpers import script_runs
from helpers.workflow_rules import parsed_rules
from pisoft.errors import BenchmarkError
from pisoft.views.registry import ENDINGS, displays_in
from pisoft.views.view import drawing
from pisoft.workflow import commandline
from pisoft.workflow.commandline import job_parser, summary_module

OUTPUTS = ["--outputs", "accuracy=a.parquet"]


def names_of(room):
    """Return the modules of a room that its script serves."""
    if room in ENDINGS:
        return set(displays_in(room))
    package = import_module(f"pisoft.{room}")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return {n for n in names if hasattr(import_module(f"pisoft.{room}.{n}"), "summaries")}


def line_of(script, name, settings, folder):
    """Return a script's arguments for one summary, table or figure."""
    files = {"ranks": folder / "ranks.parquet"}
    if script == script_runs.SUMMARISE:
        return [*script_runs.arguments(name, settings, files), *OUTPUTS]
    return script_runs.display_arguments(name, {"models": {"llama": "Llama"}}, files, folder)


def unknown(room, name, nearest):
    allowed = ", ".join(sorted(names_of(room)))
    return f"pisoft/{room}: unknown name '{name}'; did you mean '{nearest}'? allowed: {allowed}"


def missing(kind):
    return f"--files: none of kind '{kind}' is given"


@pytest.mark.parametrize(
    ("script", "name", "message"),
    [
        (script_runs.SUMMARISE, "uncertanty", unknown("statistics", "uncertanty", "uncertainty")),
        (script_runs.TABULATE, "rank", unknown("tables", "rank", "ranks")),
        (script_runs.PLOT, "pi_curve", unknown("figures", "pi_curve", "pi_curves")),
        (script_runs.SUMMARISE, "accuracy", missing("prompts")),
        (script_runs.TABULATE, "accuracy", missing("accuracy")),
        (script_runs.PLOT, "pi_curves/dynamic/llama/sst2", missing("curves")),
    ],
)
def test_unknown_names_and_missing_kinds_of_files_are_named(
    script, name, message, tmp_path, monkeypatch
):
    line = line_of(script, name, {"run": "demo"}, tmp_path)
    monkeypatch.setattr(commandline, "run", lambda main, parser: main(parser.parse_args(line)))
    with pytest.raises(BenchmarkError) as error:
        runpy.run_path(str(script_runs.SCRIPTS / f"{script}.py"), run_name="__main__")
    assert str(error.value) == message


def test_shared_modules_are_not_valid_names():
    with pytest.raises(BenchmarkError, match="unknown name 'reading'"):
        summary_module("reading")
    for room, helper in {"tables": "layout", "figures": "style"}.items():
        with pytest.raises(BenchmarkError, match=f"unknown name '{helper}'"):
            drawing(room, helper)


def parser():
    return job_parser("", "files", "outputs")


def test_arguments_other_than_pairs_are_refused(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["--settings", "{}", "--files", "statistics.parquet"])
    assert "'statistics.parquet' is not of the form KEY=VALUE" in capsys.readouterr().err


def test_files_are_grouped_by_kind_and_a_path_may_have_an_equals_sign():
    files = ["--files", "a=1=2.parquet", "b=3", "a=4"]
    files = parser().parse_args(["--settings", "{}", *files, "--outputs", "c=5"]).files
    assert {kind: list(map(str, paths)) for kind, paths in files.items()} == {
        "a": ["1=2.parquet", "4"],
        "b": ["3"],
    }


def test_every_name_is_used_by_a_rule():
    summaries = {rule.params.get("name") for rule in parsed_rules().values()}
    assert summaries - {None} == names_of("statistics")
