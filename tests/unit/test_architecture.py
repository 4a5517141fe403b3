"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from pisoft.attribution import available_methods

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
PACKAGE = SCRIPTS / "pisoft"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SNAKEFILE_LINES = 60
COMMON_LINES, RULES_LINES = 150, 1000
SCRIPT_LINES = 80


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter that sees the package, in the repository's root."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
    )


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_imports_point_one_way() -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    finished = python("-c", code)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def check_light(modules: list[str], refused: set[str], last: str = "") -> None:
    """Check that modules, and some last code, do not import any of the refused packages."""
    code = (
        "import importlib, sys\n"
        "def check(what):\n"
        f"    if heavy := {refused} & set(sys.modules):\n"
        "        sys.exit(f'{what} imports {sorted(heavy)}')\n"
        "for module in sys.argv[1:]:\n"
        "    importlib.import_module(module)\n"
        "    check(module)\n"
        f"{last}\n"
        f"check({last!r})"
    )
    finished = python("-c", code, *modules)
    assert finished.returncode == 0, finished.stderr


def test_parse_time_imports_stay_free_of_torch() -> None:
    rules = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("rules/*.smk"))
    modules = re.findall(r"^\s*(?:from|import) (pisoft[.\w]*)", rules, flags=re.M)
    assert "pisoft.workflow.checks" in modules
    modules += [f"pisoft.attribution.{method}" for method in available_methods()]
    check_light(modules, {"torch", "transformers", "inseq", "datasets"})


def test_the_analysis_never_imports_torch() -> None:
    rooms = ("statistics", "tables", "figures", "pages")
    files = [path for room in rooms for path in sorted((PACKAGE / room).glob("*.py"))]
    modules = [f"pisoft.{path.parent.name}.{path.stem}" for path in files if path.stem[0] != "_"]
    assert len(modules) > len(rooms)
    check_light(modules, {"torch"})


def test_snakefile_is_a_contents_page() -> None:
    found = lines(ROOT / "Snakefile")
    assert len(found) <= SNAKEFILE_LINES
    assert not [line for line in found if line.lstrip().startswith("def ")], "functions: common.smk"


def test_rules_declare_jobs_and_leave_functions_to_the_package() -> None:
    assert len(lines(ROOT / "rules/common.smk")) <= COMMON_LINES
    files = sorted((ROOT / "rules").glob("*.smk"))
    assert sum(len(lines(file)) for file in files) <= RULES_LINES


def test_no_rule_reads_the_command_line() -> None:
    for file in [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]:
        assert "argv" not in file.read_text(encoding="utf-8"), file.name


def test_what_is_private_to_libraries_is_used_in_one_place_each() -> None:
    names = ("_schedule_reevalutation", "_open_jobs", "_call_impl", "_parsed_default_resources")
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "rules").glob("*.smk")]
    text = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files}
    uses = {name: {path for path in text if name in text[path]} for name in names}
    scheduler, model = "scripts/pisoft/workflow/internals.py", "scripts/pisoft/models/model.py"
    assert uses == dict(zip(names, ({scheduler}, {scheduler}, {model}, set()), strict=True))
    private = re.compile(r"\b(?:workflow|scheduler|dag|persistence|resource_settings)\._[a-z]")
    assert not [path for path in text if private.search(text[path])]


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_script_is_thin(path: Path) -> None:
    assert len(lines(path)) < SCRIPT_LINES, f"{name(path)}: move work into scripts/pisoft/"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=name)
def test_everything_public_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    missing = [
        f"{name(path)}:{getattr(node, 'lineno', 1)}: {getattr(node, 'name', 'module')}"
        for node in public(tree)
        if not ast.get_docstring(node)
    ]
    assert not missing, "\n".join(missing)


def public(
    node: ast.Module | ast.ClassDef,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield a module or class and the public classes, functions and methods inside it."""
    yield node
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from public(child)
        elif isinstance(child, FUNCTIONS) and not child.name.startswith("_"):
            yield child


def test_nothing_is_left_to_do() -> None:
    marks = ("TO" + "DO", "FIX" + "ME")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = []
    for file in listed.stdout.split("\0"):
        path = ROOT / file
        if path.is_file():  # else deleted and not committed yet
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [
                f"{file}:{number}"
                for number, line in enumerate(text.splitlines(), start=1)
                if any(mark in line for mark in marks)
            ]
    assert not found


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_script_hides_no_installed_package(path: Path) -> None:
    """Jobs find scripts before packages: one called `tabulate` would break torch."""
    elsewhere = [folder for folder in sys.path if Path(folder or ".").resolve() != SCRIPTS]
    assert PathFinder.find_spec(path.stem, elsewhere) is None
