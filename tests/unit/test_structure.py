"""docs/explanation/structure.md names the packages that there are, in the order of imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "scripts/pisoft"
PAGE = (ROOT / "docs/explanation/structure.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = {contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}
FIX = "bring docs/explanation/structure.md up to date"
LOOSE_MODULES = 6  # beside the packages, at most


def lines_of_the_page() -> list[list[str]]:
    """Return the names in each line of the page's table."""
    table = PAGE[PAGE.index("| package |") :].split("\n\n")[0].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in table]


def test_every_package_and_module_is_named_once() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(name for line in lines_of_the_page() for name in line) == sorted(
        modules | packages
    ), FIX
    assert len(modules) <= LOOSE_MODULES


def test_the_order_of_the_page_is_the_one_that_is_enforced() -> None:
    layers = CONTRACTS["layers"]["layers"]
    assert lines_of_the_page() == [re.split(r" [|:] ", layer) for layer in layers], FIX
    assert CONTRACTS["circles"]["ancestors"] == ["pisoft", "pisoft.**"], "at any depth"


@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        ("records.py", "import pisoft.config.datasets", "circles"),
        ("statistics/metrics.py", "import pisoft.statistics.orders", "circles"),
        ("tables/layout.py", "import pisoft.figures.ranks", "layers"),
        ("models/device.py", "import pisoft.statistics.estimates", "layers"),
    ],
)
def test_a_planted_import_is_refused(tmp_path: Path, file: str, line: str, broken: str) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "scripts/pisoft", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "scripts/pisoft" / file
    path.write_text(path.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    finished = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "scripts"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1, finished.stdout + finished.stderr
    name = CONTRACTS[broken]["name"]
    assert f"{name} BROKEN" in " ".join(finished.stdout.split()), finished.stdout
