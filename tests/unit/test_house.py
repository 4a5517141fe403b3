"""docs/explanation/house.md names the rooms that there are, and says who may import whom."""

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
PAGE = (ROOT / "docs/explanation/house.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
FIX = "bring docs/explanation/house.md up to date"


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table whose head begins with a cell, without its head."""
    lines = PAGE[PAGE.index(f"| {heading} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def short(modules: list[str]) -> set[str]:
    return {module.removeprefix("pisoft.") for module in modules}


def named_modules() -> list[str]:
    return [name for head in ("room", "module") for row in rows(head) for name in names(row[0])]


def test_every_room_and_module_is_named_and_no_other() -> None:
    found = {
        path.stem
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").is_file()
    }
    assert set(named_modules()) == found, FIX
    assert len(named_modules()) == len(found), "named twice"


def test_what_stands_beside_the_rooms_knows_none_of_them() -> None:
    (contract,) = (contract for contract in CONTRACTS if contract["id"] == "foundations")
    modules = {name for row in rows("module") for name in names(row[0])}
    assert short(contract["source_modules"]) == modules | {"columns", "config", "contracts"}


def test_the_arrows_are_those_that_are_enforced() -> None:
    layers = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    stated = re.findall(r"^- `(.* → .*)`$", PAGE, flags=re.M)
    assert [line.split(" → ") for line in stated] == layers, FIX


def test_what_is_never_imported_is_what_is_forbidden() -> None:
    forbidden = [
        (
            short(contract["source_modules"]),
            short(contract["forbidden_modules"]),
            {
                " → ".join(sorted(short(line.split(" -> ")), key=line.index))
                for line in contract.get("ignore_imports", [])
            },
        )
        for contract in CONTRACTS
        if contract["type"] == "forbidden"
    ]
    assert [tuple(map(names, row)) for row in rows("these")] == forbidden, FIX


def test_no_contract_is_of_a_kind_that_the_page_leaves_out() -> None:
    kinds = [contract["type"] for contract in CONTRACTS]
    assert set(kinds) == {"acyclic_siblings", "layers", "forbidden"}
    (circles,) = (contract for contract in CONTRACTS if contract["type"] == "acyclic_siblings")
    assert circles["ancestors"] == ["pisoft", "pisoft.**"], "at any depth"


@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        ("records.py", "import pisoft.config.datasets", "circles"),
        ("statistics/metrics.py", "import pisoft.statistics.orders", "circles"),
        ("tables/layout.py", "import pisoft.figures.ranks", "numbers"),
        ("lm/device.py", "import pisoft.statistics.estimates", "jobs"),
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
    (name,) = (contract["name"] for contract in CONTRACTS if contract["id"] == broken)
    assert f"{name} BROKEN" in " ".join(finished.stdout.split()), finished.stdout
