"""Architecture rules that can be checked automatically."""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from helpers.fresh_python import run_code
from pisoft.attribution import available_methods

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
PACKAGE = SCRIPTS / "pisoft"
SNAKEFILE_LINES = 60
COMMON_LINES, RULES_LINES = 150, 1000
SCRIPT_LINES = 80


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_parse_time_imports_stay_free_of_torch() -> None:
    rules = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("rules/*.smk"))
    modules = re.findall(r"^\s*(?:from|import) (pisoft[.\w]*)", rules, flags=re.M)
    assert "pisoft.workflow.checks" in modules
    modules += [f"pisoft.attribution.{method}" for method in available_methods()]
    code = (
        "import importlib, sys\n"
        "for module in sys.argv[1:]:\n"
        "    importlib.import_module(module)\n"
        "    if heavy := {'torch', 'transformers', 'inseq', 'datasets'} & set(sys.modules):\n"
        "        sys.exit(f'{module} imports {sorted(heavy)}')\n"
    )
    finished = run_code(code, *modules)
    assert finished.returncode == 0, finished.stderr


def test_the_snakefile_is_a_table_of_contents() -> None:
    contents = lines(ROOT / "Snakefile")
    assert len(contents) <= SNAKEFILE_LINES
    assert not [line for line in contents if line.lstrip().startswith("def ")], (
        "functions: common.smk"
    )


def test_rules_declare_jobs_and_leave_functions_to_the_package() -> None:
    assert len(lines(ROOT / "rules/common.smk")) <= COMMON_LINES
    files = sorted((ROOT / "rules").glob("*.smk"))
    assert sum(len(lines(file)) for file in files) <= RULES_LINES


def test_no_rule_reads_the_command_line() -> None:
    for file in [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]:
        assert "argv" not in file.read_text(encoding="utf-8"), file.name


def test_each_private_name_of_a_library_is_used_in_one_module() -> None:
    names = ("_schedule_reevalutation", "_open_jobs", "_call_impl", "_parsed_default_resources")
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "rules").glob("*.smk")]
    text = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files}
    uses = {name: {path for path in text if name in text[path]} for name in names}
    scheduler, model = "scripts/pisoft/workflow/internals.py", "scripts/pisoft/models/decoder.py"
    assert uses == dict(zip(names, ({scheduler}, {scheduler}, {model}, set()), strict=True))
    private = re.compile(r"\b(?:workflow|scheduler|dag|persistence|resource_settings)\._[a-z]")
    seals = "scripts/pisoft/workflow/seals.py"
    assert [path for path in text if private.search(text[path])] == [seals]


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_script_is_thin(path: Path) -> None:
    assert len(lines(path)) < SCRIPT_LINES, f"{name(path)}: move work into scripts/pisoft/"


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_script_hides_no_installed_package(path: Path) -> None:
    """Jobs find scripts before packages: one called `tabulate` would break torch."""
    elsewhere = [folder for folder in sys.path if Path(folder or ".").resolve() != SCRIPTS]
    assert PathFinder.find_spec(path.stem, elsewhere) is None
